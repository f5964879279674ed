//! Sizes of inline media, read from headers without decoding pixels.
