"""The mini profile of Stable Diffusion XL."""
