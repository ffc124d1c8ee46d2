//! The README shows what the tool prints.

use std::fs;
use std::process::Command;

use whole_plugin::built;
use whole_plugin::machine::RELEASE;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

/// What is in the README between the comments `output`, without the command.
fn shown() -> Vec<String> {
    let readme = fs::read_to_string(built::root().join("README.md")).expect("the README");
    let block = readme.split_once("<!-- output -->\n```\n$ ").expect("the output").1;
    let block = block.split_once("\n```\n<!-- end output -->").expect("the end of the output").0;
    let lines: Vec<String> = block.lines().skip(1).map(str::to_owned).collect();
    assert!(lines.len() >= 8, "{lines:#?}");
    lines
}

/// A line without its numbers and their units. Of a row of a rank, the rank is left.
fn without_numbers(line: &str) -> String {
    let words: Vec<&str> = line.split_whitespace().collect();
    if let ["rank", number, _, ..] = words.as_slice()
        && number.parse::<u32>().is_ok()
    {
        return format!("rank {number}");
    }
    let is_number = |word: &str| {
        let word = word.trim_matches(['(', ')', ':', ';', ',', '.']);
        ["ns", "µs", "ms", "s", "%", "<", "±"].contains(&word) || word.parse::<f64>().is_ok()
    };
    words.into_iter().filter(|word| !is_number(word)).collect::<Vec<_>>().join(" ")
}

/// The demo's job. On a busy machine, other ranks come late, too: there the last rank has to be later.
#[test]
fn the_readme_shows_lines_that_stats_prints() {
    let wanted: Vec<String> = shown().iter().map(|line| without_numbers(line)).collect();
    let mut printed = Vec::new();
    for pause_ms in ["40", "400"] {
        let scratch = Scratch::new();
        let shape = ["--procs", "4", "--threads", "1", "--ranges", "--ops", "pause,one,sendrecv", "--rounds", "16"];
        let job = scratch.run_nccl(RELEASE, &[], &[&shape[..], &["--count", "50000", "--pause", pause_ms]].concat());
        let Some(mut job) = job else { return };
        let _ended = run(&mut job).with_code(0);
        printed = run(Command::new(built::nccl_otf2()).arg("stats").arg(scratch.out()))
            .with_code(0)
            .stdout
            .lines()
            .map(without_numbers)
            .collect();
        if wanted.iter().all(|line| printed.contains(line)) {
            return;
        }
    }
    let missing: Vec<&String> = wanted.iter().filter(|line| !printed.contains(line)).collect();
    panic!("stats does not print {missing:#?}, but {printed:#?}");
}
