"""How the mini profiles were made: data, training, reference scores. Part of the repository, not of the wheel."""
