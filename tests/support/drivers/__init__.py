"""Parts of the product driven step by step, and raw clients of nodes."""
