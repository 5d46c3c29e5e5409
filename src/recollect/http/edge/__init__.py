"""What every request passes before any endpoint sees it. Plain ASGI, so that it costs little."""
