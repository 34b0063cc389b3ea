"""What all HTTP interfaces share: sign-in, roles, problems, probes."""
