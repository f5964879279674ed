//! Merging in windows and down to two parts, against plain merging with a heap.

use super::super::core;
use super::super::core_tests::{Random, all, pieces};
use super::super::engine::Engine as _;
use super::*;

#[test]
fn hostile_pieces_are_windowed_exactly() {
    let seed = 0x5EED_0005;
    println!("seed {seed:#x}");
    let mut random = Random(seed);
    for (ours, _) in all() {
        for atoms in [
            vec!["a"],
            vec![" "],
            vec!["\n"],
            vec!["="],
            vec!["a", "b"],
            vec!["x", "q", "e", "t"],
            vec!["你", "好"],
            vec!["A", "a", "B"],
            vec!["the", "z"],
        ] {
            for _ in 0..3 {
                let text: String = (0..random.below(3_000)).map(|_| random.pick(&atoms)).collect();
                let whole = {
                    let mut ids = Vec::new();
                    let mut row = Row::default();
                    core::for_pieces_of(&ours, text.as_bytes(), |piece| {
                        encode_heap(ours.vocabulary(), piece, 0, &mut row);
                        ids.extend_from_slice(&row.ids);
                    });
                    ids
                };
                assert_eq!(ours.encode(&text), whole, "{} {text:?}", ours.name());
                assert_eq!(ours.count(&text), whole.len(), "{} {text:?}", ours.name());
            }
        }
    }
}

#[test]
fn short_pieces_are_counted_as_a_heap_merges_them() {
    let seed = 0x5EED_0008;
    println!("seed {seed:#x}");
    for (ours, _) in all() {
        let by_id: Vec<&[u8]> = ours.vocabulary().tokens().collect();
        let tokens: std::collections::HashSet<&[u8]> = by_id.iter().copied().collect();
        let mut random = Random(seed);
        let mut by_length = [0; 17];
        for _ in 0..40 * pieces() {
            // Of few letters, so that equal ranks stand side by side; or of two tokens; or of any bytes.
            let piece: Vec<u8> = match random.below(3) {
                0 => (0..=random.below(8)).map(|_| b"aeinst \n="[random.below(9)]).collect(),
                1 => [0; 2].map(|_| by_id[random.below(by_id.len())]).concat(),
                _ => (0..=random.below(16)).map(|_| u8::try_from(random.below(256)).unwrap()).collect(),
            };
            if piece.is_empty() || piece.len() > 16 {
                continue;
            }
            let mut row = Row::default();
            encode_heap(ours.vocabulary(), &piece, 0, &mut row);
            if piece.len() >= 5 {
                assert_eq!(count_parted(ours.vocabulary(), &piece, 1), row.ids.len(), "{} {piece:?}", ours.name());
            }
            if tokens.contains(&*piece) {
                continue;
            }
            assert_eq!(count_parted(ours.vocabulary(), &piece, 2), row.ids.len(), "{} {piece:?}", ours.name());
            by_length[piece.len()] += 1;
        }
        assert!(by_length[2..].iter().all(|seen| *seen > 0), "{by_length:?}");
    }
}
