"""Wire models for operators."""
