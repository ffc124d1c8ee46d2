//! The options.

use std::path::PathBuf;

use super::cells::{CELLS, Cell};
use crate::failure::{Failure, Result};
use crate::nccl;
use crate::options::{Options, unknown};

pub(super) const HELP: &str = "\
Runs NCCL's published releases in many ways on emulated devices, and holds each archive against what was done.

Usage: cargo xtask matrix [--release VERSION]... [--cell NAME]... [--memcheck] [--jobs N] [--keep]
                    [--json FILE] [--write-docs]

  --release VERSION  only this release; may be given more than once
  --cell NAME        only this way to run; may be given more than once
  --memcheck         as --cell memcheck: a run under Valgrind
  --jobs N           how many runs at once (default 2)
  --keep             keep what the good runs left, too (target/matrix/VERSION/CELL)
  --json FILE        write what became of each run into a file
  --write-docs       put all cells, as they were when last run, into docs/RELEASES.md
  --list             name the releases and the cells

docs/RELEASES.md says what is held against what. Releases that are not in the cache yet are fetched (200 to
350 MB each). Exit status 1 when one run failed.
";

pub(super) struct Request {
    pub(super) releases: Vec<String>,
    pub(super) cells: Vec<&'static Cell>,
    pub(super) jobs: usize,
    pub(super) keep: bool,
    pub(super) json: Option<PathBuf>,
    pub(super) write_docs: bool,
}

impl Request {
    /// `None` when it was answered here: help, and the list.
    pub(super) fn parse(words: &[String]) -> Result<Option<Self>> {
        let mut request = Self {
            releases: Vec::new(),
            cells: Vec::new(),
            jobs: 2,
            keep: false,
            json: None,
            write_docs: false,
        };
        let mut options = Options::new(words);
        while let Some(word) = options.next()? {
            match word {
                "-h" | "--help" => {
                    print!("{HELP}");
                    return Ok(None);
                }
                "--list" => {
                    println!("releases: {}\ncells:", nccl::RELEASES.join(" "));
                    for cell in CELLS {
                        println!("  {:16}{}", cell.name, cell.about);
                    }
                    return Ok(None);
                }
                "--release" => request.releases.push(options.value(word)?.to_owned()),
                "--cell" => request.cells.push(cell(options.value(word)?)?),
                "--memcheck" => request.cells.push(cell("memcheck")?),
                "--json" => request.json = Some(options.value(word)?.into()),
                "--jobs" => request.jobs = jobs(options.value(word)?)?,
                "--keep" => request.keep = true,
                "--write-docs" => request.write_docs = true,
                other => return Err(unknown(other, HELP)),
            }
        }
        if request.releases.is_empty() {
            request.releases = nccl::RELEASES.map(str::to_owned).to_vec();
        }
        if request.cells.is_empty() {
            request.cells = CELLS.iter().collect();
        }
        Ok(Some(request))
    }
}

fn cell(name: &str) -> Result<&'static Cell> {
    CELLS.iter().find(|cell| cell.name == name).ok_or_else(|| {
        let names: Vec<&str> = CELLS.iter().map(|cell| cell.name).collect();
        Failure::usage(format!(
            "there is no cell `{name}`; there are {}",
            names.join(", ")
        ))
    })
}

fn jobs(word: &str) -> Result<usize> {
    match word.parse() {
        Ok(number @ 1..=64) => Ok(number),
        _ => Err(Failure::usage(format!(
            "--jobs {word}: a number from 1 to 64"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Request>> {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Request::parse(&words)
    }

    #[test]
    fn without_options_it_is_everything() {
        let request = parse("").unwrap().unwrap();
        assert_eq!(request.releases.len(), nccl::RELEASES.len());
        assert_eq!(request.cells.len(), CELLS.len());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let memcheck = parse("--memcheck").unwrap().unwrap();
        assert!(memcheck.cells.iter().all(|cell| cell.memcheck));
        assert!(parse("--cell nothing").is_err());
        assert!(parse("--jobs 0").is_err());
    }
}
