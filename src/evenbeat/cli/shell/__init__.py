"""What all commands share: options, printing, completion, loading."""
