"""What models are and how alike their parts look. Nothing here decides anything."""
