"""The mini profile of 3D-UNet."""
