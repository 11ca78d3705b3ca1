"""The mini profile of RetinaNet."""
