//! `cargo xtask scale`: what it takes to make the archive of a large job.

use crate::cargo;
use crate::failure::{Failure, Result};
use crate::options::{Options, unknown};
use crate::process;
use crate::report;

const HELP: &str = "\
Makes a synthetic job, writes its archive, and says how long that took and how much memory.

Usage: cargo xtask scale [--parts N | --ranks N --events N] [--dir DIR]

  --parts N    unify N parts of four communicators each: all, tensor, pipeline, data
  --ranks N    instead: finalize the journals of N processes (64)
  --events N   of so many NCCL events each (1000000)
  --dir DIR    where there is room (the system's folder for temporary files)

What is made is removed. The figures are in docs/GUIDE.md.
";

/// Runs the command.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let (mut parts, mut ranks, mut events) = (None, "64", "1000000");
    let folder = std::env::temp_dir().display().to_string();
    let mut folder: &str = &folder;
    let mut options = Options::new(words);
    while let Some(word) = options.next()? {
        match word {
            "--parts" => parts = Some(number(word, options.value(word)?)?),
            "--ranks" => ranks = number(word, options.value(word)?)?,
            "--events" => events = number(word, options.value(word)?)?,
            "--dir" => folder = options.value(word)?,
            "-h" | "--help" => {
                print!("{HELP}");
                return Ok(());
            }
            other => return Err(unknown(other, HELP)),
        }
    }
    report::heading("scale");
    let mut bench = cargo::command();
    bench.args(["bench", "--locked", "--package", "nccl-profiler-otf2"]);
    bench.args(["--bench", "scale", "--"]);
    match parts {
        Some(parts) => bench.args(["parts", parts, folder]),
        None => bench.args(["journals", ranks, events, folder]),
    };
    process::run(&mut bench)
}

fn number<'a>(name: &str, text: &'a str) -> Result<&'a str> {
    match text.parse::<u32>() {
        Ok(1..) => Ok(text),
        _ => Err(Failure::usage(format!("{name} {text}: not a number"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_numbers() {
        assert_eq!(number("--parts", "10000").ok(), Some("10000"));
        assert!(number("--parts", "many").is_err());
        assert!(number("--parts", "0").is_err());
    }
}
