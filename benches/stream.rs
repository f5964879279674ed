//! Streams at full speed: server-sent events in, turns out, with memory that stays flat.
//!
//! `cargo bench --bench stream` times one megabyte of each kind; with `PLIMSOLL_STREAM_GB=1` it also runs that many gigabytes once and
//! prints the rate and the peak memory. The answer is asserted inside each bench.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs, clippy::cast_precision_loss, reason = "a benchmark")]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use plimsoll::Format;
use plimsoll::turn::{SseReader, Stream};
use std::hint::black_box;
use std::time::Instant;

const WORDS: [&str; 8] = [" the", " load", " line", " of", " a", " ship", ",\\n", " größer"];

/// Events until about a megabyte is full, each with one word; gives the length of the text in them.
fn fill(stream: &mut String, event: impl Fn(&str) -> String) -> usize {
    let mut text = 0;
    for word in WORDS.iter().cycle() {
        if stream.len() > 1 << 20 {
            break;
        }
        text += word.replace("\\n", "\n").len();
        stream.push_str(&event(word));
    }
    text
}

fn chat() -> (Vec<u8>, usize) {
    let chunk = |delta: &str, finish: &str| {
        format!(
            "data: {{\"id\":\"chatcmpl-abc123\",\"object\":\"chat.completion.chunk\",\"created\":1764500000,\"model\":\"gpt-4o-mini-2024-07-18\",\
             \"service_tier\":\"default\",\"system_fingerprint\":\"fp_560af6e559\",\"choices\":[{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\
             \"finish_reason\":{finish}}}],\"usage\":null,\"obfuscation\":\"a1b2c3\"}}\n\n"
        )
    };
    let mut stream = chunk("{\"role\":\"assistant\",\"content\":\"\",\"refusal\":null}", "null");
    let text = fill(&mut stream, |word| chunk(&format!("{{\"content\":\"{word}\"}}"), "null"));
    stream += &chunk("{}", "\"stop\"");
    stream +=
        "data: {\"id\":\"chatcmpl-abc123\",\"choices\":[],\"usage\":{\"prompt_tokens\":9,\"completion_tokens\":9}}\n\ndata: [DONE]\n\n";
    (stream.into_bytes(), text)
}

fn anthropic() -> (Vec<u8>, usize) {
    let event = |name: &str, rest: &str| format!("event: {name}\ndata: {{\"type\":\"{name}\"{rest}}}\n\n");
    let mut stream = event("message_start", ",\"message\":{\"id\":\"m\",\"role\":\"assistant\",\"usage\":{\"input_tokens\":3}}");
    stream += &event("content_block_start", ",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}");
    let text = fill(&mut stream, |word| {
        event("content_block_delta", &format!(",\"index\":0,\"delta\":{{\"type\":\"text_delta\",\"text\":\"{word}\"}}"))
    });
    stream += &event("content_block_stop", ",\"index\":0");
    stream += &event("message_delta", ",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}");
    stream += &event("message_stop", "");
    (stream.into_bytes(), text)
}

fn assemble(bytes: &[u8], format: Format) -> usize {
    let mut stream = Stream::new(format).unwrap();
    for piece in bytes.chunks(16 << 10) {
        stream.feed(piece);
    }
    let turn = stream.finish();
    assert!(turn.ended_well, "{:?}", turn.faults);
    turn.choices[0].text.len()
}

fn read(bytes: &[u8]) -> usize {
    let (mut reader, mut seen) = (SseReader::new(), 0);
    for piece in bytes.chunks(16 << 10) {
        let fed = reader.feed(piece, |event| {
            seen += event.data.len();
            Ok(())
        });
        fed.unwrap();
    }
    reader.finish().unwrap();
    seen
}

/// Peak resident memory of this process, in kB, where the system tells.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    status.lines().find(|line| line.starts_with("VmHWM"))?.split_whitespace().nth(1)?.parse().ok()
}

fn streams(c: &mut Criterion) {
    let kinds = [("chat", chat(), Format::Chat), ("anthropic", anthropic(), Format::Anthropic)];
    let mut group = c.benchmark_group("stream");
    group.sample_size(10);
    for (name, (bytes, text), format) in &kinds {
        group.throughput(Throughput::Bytes(bytes.len() as u64));
        group.bench_function(format!("read/{name}"), |b| b.iter(|| assert!(read(black_box(bytes)) > *text)));
        group.bench_function(format!("assemble/{name}"), |b| b.iter(|| assert_eq!(assemble(black_box(bytes), *format), *text)));
    }
    group.finish();
    let Some(gigabytes) = std::env::var("PLIMSOLL_STREAM_GB").ok().and_then(|n| n.parse::<u64>().ok()) else { return };
    for (name, (bytes, text), format) in &kinds {
        assert_eq!(assemble(bytes, *format), *text);
        let (before, started, mut done) = (peak(), Instant::now(), 0_u64);
        while done < gigabytes << 30 {
            assert_eq!(assemble(bytes, *format), *text);
            done += bytes.len() as u64;
        }
        let rate = done as f64 / 1e6 / started.elapsed().as_secs_f64();
        println!("{name}: {done} bytes at {rate:.0} MB/s; peak memory {before:?} kB before, {:?} kB after", peak());
    }
}

criterion_group!(benches, streams);
criterion_main!(benches);
