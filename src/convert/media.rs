//! Pictures, files and sound in each target's shape.
//!
//! Used by the writers. Bytes and URLs are carried over; a provider's own file id means nothing to another, and is listed.

use super::Out;
use crate::format::{Format, Item, ItemBody, Media};
use serde_json::{Value, json};

/// What sort of medium it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sort {
    Image,
    File,
    Audio,
    Video,
}

/// What an item that is neither text nor a function call becomes in `to`: a medium its part, reasoning and anything else (`other`
/// says what that is) an entry in the list.
pub(super) fn medium(item: &Item<'_>, to: Format, other: &str, out: &mut Out<'_>) -> Option<Value> {
    let (media, sort) = match &item.body {
        ItemBody::Image(media) => (media, Sort::Image),
        ItemBody::File(media) => (media, Sort::File),
        ItemBody::Audio(media) => (media, Sort::Audio),
        ItemBody::Video(media) => (media, Sort::Video),
        ItemBody::Reasoning(_) => {
            out.lose_reasoning(&item.place);
            return None;
        }
        ItemBody::Text(_) | ItemBody::ToolCall(_) | ItemBody::ToolResult(_) | ItemBody::Other(_) => {
            out.lose(&item.place, other);
            return None;
        }
    };
    part(media, sort, to, &item.place, out)
}

/// The part for `to`, or `None` (and an entry in the list) when it can't hold it.
pub(super) fn part(media: &Media<'_>, sort: Sort, to: Format, place: &str, out: &mut Out<'_>) -> Option<Value> {
    if media.file_id.is_some() && media.base64.is_none() && media.url.is_none() {
        out.lose(place, "a file held by the other provider under its own id");
        return None;
    }
    let mime = media.mime.unwrap_or(if sort == Sort::Image { "image/png" } else { "application/pdf" });
    let data_url = media.base64.map(|base64| format!("data:{mime};base64,{base64}"));
    let url = media.url.map(str::to_owned).or(data_url);
    let name = media.name.unwrap_or("file");
    let written = match (to, sort) {
        (Format::Chat, Sort::Image) => url.map(|url| match media.detail {
            Some(detail) => json!({"type": "image_url", "image_url": {"url": url, "detail": detail}}),
            None => json!({"type": "image_url", "image_url": {"url": url}}),
        }),
        (Format::Chat, Sort::File) if media.base64.is_some() => {
            url.map(|url| json!({"type": "file", "file": {"filename": name, "file_data": url}}))
        }
        (Format::Chat, Sort::Audio) => {
            let kind = mime.rsplit('/').next().unwrap_or("wav");
            media.base64.map(|base64| json!({"type": "input_audio", "input_audio": {"data": base64, "format": kind}}))
        }
        (Format::Responses, Sort::Image) => {
            url.map(|url| json!({"type": "input_image", "image_url": url, "detail": media.detail.unwrap_or("auto")}))
        }
        (Format::Responses, Sort::File) => match (media.base64, media.url) {
            (Some(_), _) => url.map(|url| json!({"type": "input_file", "filename": name, "file_data": url})),
            (None, Some(url)) => Some(json!({"type": "input_file", "file_url": url})),
            (None, None) => None,
        },
        (Format::Anthropic, Sort::Image | Sort::File) => {
            let source = match (media.base64, media.url) {
                (Some(base64), _) => Some(json!({"type": "base64", "media_type": mime, "data": base64})),
                (None, Some(url)) => Some(json!({"type": "url", "url": url})),
                (None, None) => None,
            };
            source.map(|source| json!({"type": if sort == Sort::Image { "image" } else { "document" }, "source": source}))
        }
        (Format::Converse, _) => converse(media, sort, mime),
        (Format::Gemini, _) => match (media.base64, media.url) {
            (Some(base64), _) => Some(json!({"inlineData": {"mimeType": mime, "data": base64}})),
            (None, Some(url)) => Some(json!({"fileData": {"mimeType": mime, "fileUri": url}})),
            (None, None) => None,
        },
        _ => None,
    };
    // A document that is plain text can always be said.
    let written = written.or_else(|| {
        let text = media.text?;
        Some(match to {
            Format::Gemini | Format::Converse => json!({"text": text}),
            Format::Responses => json!({"type": "input_text", "text": text}),
            _ => json!({"type": "text", "text": text}),
        })
    });
    if written.is_none() {
        out.lose(place, format!("a medium that the {to} format can't hold"));
    }
    // What stands beside the bytes, where the target has no place for it.
    if let Some(part) = &written {
        let type_is_told = media.text.is_some() || media.mime.is_none_or(|mime| holds(part, mime) || holds(part, short(mime)));
        for (told, what) in [
            (media.detail.is_none_or(|detail| holds(part, detail)), "the resolution asked for"),
            (media.name.is_none_or(|name| holds(part, name)), "a file's name"),
            (type_is_told, "a medium's type"),
        ] {
            if !told {
                out.note(place, what);
            }
        }
    }
    written
}

/// Whether a string of a part holds a text.
fn holds(part: &Value, text: &str) -> bool {
    match part {
        Value::String(string) => string.get(..string.len().min(2048)).unwrap_or(string).contains(text),
        Value::Array(list) => list.iter().any(|value| holds(value, text)),
        Value::Object(map) => map.values().any(|value| holds(value, text)),
        _ => false,
    }
}

/// The last word of a MIME type as Converse names formats.
fn short(mime: &str) -> &str {
    match mime {
        "text/plain" => "txt",
        "text/markdown" => "md",
        _ => mime.rsplit('/').next().unwrap_or(mime),
    }
}

/// Converse takes bytes, or an object in S3; never a URL.
fn converse(media: &Media<'_>, sort: Sort, mime: &str) -> Option<Value> {
    let source = match (media.base64, media.url.filter(|url| url.starts_with("s3://"))) {
        (Some(base64), _) => json!({"bytes": base64}),
        (None, Some(uri)) => json!({"s3Location": {"uri": uri}}),
        (None, None) => return None,
    };
    let (key, format) = match sort {
        Sort::Image => ("image", short(mime)),
        Sort::File => ("document", short(mime)),
        Sort::Audio => ("audio", short(mime)),
        Sort::Video => ("video", short(mime)),
    };
    let mut part = json!({"format": format, "source": source});
    if let (Sort::File, Some(map)) = (sort, part.as_object_mut()) {
        // Every document needs a name, of letters, digits, spaces, hyphens and brackets.
        let name = media.name.unwrap_or("file");
        let plain = |c: char| if c.is_alphanumeric() || " -()[]".contains(c) { c } else { '-' };
        map.insert("name".to_owned(), json!(name.chars().map(plain).collect::<String>()));
    }
    Some(json!({(key): part}))
}
