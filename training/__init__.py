"""What makes and weighs an encoder. Runs from a checkout, with the extra `training`; the plugin never imports it."""
