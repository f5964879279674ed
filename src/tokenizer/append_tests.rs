//! Growing and cutting back, against counting the whole text each time.

use crate::tokenizer::Tokenizer;
use crate::tokenizer::core_tests::{self, Random, text};
use std::sync::Arc;

/// One of every split.
fn tokenizers() -> impl Iterator<Item = Tokenizer> {
    core_tests::all().into_iter().map(|(core, _)| Tokenizer::from_engine(Arc::new(core)))
}

#[test]
fn every_step_equals_a_whole_count() {
    let seed = 0x5EED_0010;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    for tokenizer in tokenizers() {
        let name = tokenizer.name();
        for _ in 0..15 {
            let mut counter = tokenizer.appender();
            let mut marks = vec![counter.mark()];
            for _ in 0..60 {
                if random.below(5) == 0 {
                    let at = random.below(marks.len());
                    counter.truncate(marks[at]).unwrap();
                    marks.truncate(at + 1);
                } else {
                    let most = if random.below(4) == 0 { 60 } else { 4 };
                    counter.extend(&text(&mut random, most));
                    marks.push(counter.mark());
                }
                assert_eq!(counter.count(), tokenizer.count(counter.text()), "{name} {:?}", counter.text());
            }
        }
    }
}

#[test]
fn a_long_last_piece_grows_and_shrinks_exactly() {
    let seed = 0x5EED_0011;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    for tokenizer in tokenizers() {
        let name = tokenizer.name();
        for atoms in [
            vec!["a"],
            vec![" "],
            vec!["\n"],
            vec!["="],
            vec!["a", "b", "e", "th", "ing"],
            vec!["A", "B"],
            vec!["你", "好", "们"],
            vec!["7"],
        ] {
            let mut counter = tokenizer.appender();
            let mut marks = Vec::new();
            for step in 0..150 {
                let piece: String = (0..=random.below(20)).map(|_| random.pick(&atoms)).collect();
                counter.extend(&piece);
                marks.push(counter.mark());
                if step % 10 == 9 {
                    let back = marks[random.below(marks.len() - 5) + 5];
                    counter.truncate(back).unwrap();
                    marks.retain(|mark| mark.bytes <= back.bytes);
                }
                assert_eq!(counter.count(), tokenizer.count(counter.text()), "{name} {:?}", counter.text());
            }
            counter.extend("b c");
            assert_eq!(counter.count(), tokenizer.count(counter.text()), "{name} {:?}", counter.text());
        }
    }
}

#[test]
fn added_text_can_lower_a_count() {
    let tokenizer = Tokenizer::by_name("o200k_base").unwrap();
    let mut counter = tokenizer.appender();
    counter.extend("unbelievab");
    let before = counter.count();
    counter.extend("le");
    assert!(counter.count() < before);
    assert!(counter.truncate(super::TextMark { bytes: 99 }).is_err());
}
