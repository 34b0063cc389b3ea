"""What the faces share: sign-in, roles, problems, probes."""
