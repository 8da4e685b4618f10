"""Which sentences make up each update, and their tokens as tensors."""
