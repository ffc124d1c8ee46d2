//! `cargo xtask torture`: jobs whose processes are killed at random instants, again and again.

use crate::cargo::{self, Profile};
use crate::failure::{Failure, Result};
use crate::options::{Options, unknown};
use crate::process;
use crate::report;

const HELP: &str = "\
Runs jobs whose processes are killed at random instants, and holds each archive against what had been recorded.

Usage: cargo xtask torture [--kills N] [--seed S]

  --kills N   stop after this many kills (1000)
  --seed S    where the random numbers begin (1); a failing job prints the one that repeats it

The processes call the plugin as NCCL does and count each callback that has returned in a file that outlives them. Some are
killed while they record, some while they write, some abort, some exit without finalize. `nccl-otf2 finalize` must end, and
the archive must have every callback that had returned. The same driver runs shortly among the tests (tests/torture).
";

struct Request {
    kills: u64,
    seed: u64,
}

impl Request {
    fn parse(words: &[String]) -> Result<Option<Self>> {
        let mut request = Self {
            kills: 1000,
            seed: 1,
        };
        let mut options = Options::new(words);
        while let Some(word) = options.next()? {
            match word {
                "--kills" => request.kills = number(word, options.value(word)?)?,
                "--seed" => request.seed = number(word, options.value(word)?)?,
                "-h" | "--help" => return Ok(None),
                other => return Err(unknown(other, HELP)),
            }
        }
        Ok(Some(request))
    }
}

fn number(name: &str, text: &str) -> Result<u64> {
    text.parse()
        .map_err(|_| Failure::usage(format!("{name} {text}: not a number")))
}

/// Runs the command.
pub(crate) fn run(words: &[String]) -> Result<()> {
    let Some(request) = Request::parse(words)? else {
        print!("{HELP}");
        return Ok(());
    };
    report::heading("build");
    cargo::build(
        Profile::Debug,
        &["nccl-profiler-otf2", "nccl-otf2", "plugin-host"],
    )?;
    report::heading("torture");
    let mut test = cargo::command();
    test.args(["test", "--locked", "--package", "nccl-profiler-otf2"]);
    test.args(["--test", "torture", "--", "--nocapture"]);
    test.env("NCCL_OTF2_TEST_KILLS", request.kills.to_string());
    test.env("NCCL_OTF2_TEST_SEED", request.seed.to_string());
    process::run(&mut test)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_that_is_none_is_refused() {
        let words: Vec<String> = ["--kills", "many"].map(str::to_owned).into();
        let refused = Request::parse(&words)
            .err()
            .map(|failure| failure.message().to_owned());
        assert!(refused.is_some_and(|message| message.contains("many")));
    }
}
