"""The mini profile of ResNet-50."""
