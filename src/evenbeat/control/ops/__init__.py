"""What people do to keep the service well."""
