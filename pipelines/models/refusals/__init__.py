"""What a server says when it gives no reply: that a content filter stopped it, and how long to
wait."""
