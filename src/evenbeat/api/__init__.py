"""The faces for programs: they translate, call control, and translate back."""
