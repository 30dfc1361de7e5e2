"""What leaves: messages, histories and subjects, by age or size."""
