//! The appendable counter against counting the whole text, through any row of additions and cuts.
//!
//! Run with `cargo fuzz run append`. The first byte of each step says whether it cuts back or adds.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll::Tokenizer;

fuzz_target!(|steps: Vec<(u8, String)>| {
    for name in ["o200k_base", "cl100k_base", "r50k_base"] {
        let tokenizer = Tokenizer::by_name(name).expect("built in");
        let mut counter = tokenizer.appender();
        let mut marks = vec![counter.mark()];
        for (kind, text) in &steps {
            if kind % 4 == 0 {
                let at = usize::from(kind / 4) % marks.len();
                counter.truncate(marks[at]).expect("its own mark");
                marks.truncate(at + 1);
            } else {
                counter.extend(text);
                marks.push(counter.mark());
            }
            assert_eq!(counter.count(), tokenizer.count(counter.text()));
        }
    }
});
