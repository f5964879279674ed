//! Makes `data/models-litellm.tsv` anew from LiteLLM's price file: `refresh_models FILE VERSION DATE > data/models-litellm.tsv`.
//!
//! Run by `scripts/refresh-models`. Reads the file by the same rules as `plimsoll models import`, over the hand-checked rows.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command")]

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut args = std::env::args().skip(1);
    let (Some(file), Some(version), Some(date)) = (args.next(), args.next(), args.next()) else {
        return Err("usage: refresh_models FILE VERSION DATE".into());
    };
    let mut models = plimsoll::Models::checked_only();
    let report = models.import_litellm(&std::fs::read(file)?, &format!("LiteLLM {version} price file (MIT)"), &date)?;
    println!("# Models of LiteLLM's public price file that models-checked.tsv does not hold. Made by scripts/refresh-models; do not edit.");
    println!("# id\twindow\tinput cap\toutput cap\treasons\taliases\tnote");
    print!("{}", models.to_text());
    eprintln!("{report:?}");
    Ok(())
}
