//! `plugin-host script`: sequences of callbacks that no healthy NCCL would make, and those that it does make.
//!
//! The language is described in this crate's README.

mod run;
mod system;
mod words;

use std::fs;
use std::path::PathBuf;

use anyhow::{Context as _, bail};

use crate::nccl::{self, NcclArguments};
use crate::plugin::{Outcome, PluginArguments};
use run::{Block, Line};
use words::read;

/// Run a script of callbacks: a hostile host.
///
/// One command a line. Every pointer argument can be NULL, handles can be stale or foreign numbers, threads race,
/// the process forks, kills itself or exits without finalize. The README of plugin-host describes the language.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The script.
    script: PathBuf,

    #[command(flatten)]
    plugin: PluginArguments,

    #[command(flatten)]
    nccl: NcclArguments,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<Outcome> {
    let name = arguments.script.display();
    let text = fs::read_to_string(&arguments.script).with_context(|| format!("cannot read the script {name}"))?;
    let script = parse(&text).with_context(|| name.to_string())?;
    // Lives to the end of the script, as libnccl does in a program that is linked with it.
    let _libnccl = arguments.nccl.load()?;
    let plugin = std::path::absolute(&arguments.plugin.plugin)?;
    let done = run::run(&script, plugin, arguments.plugin.table);
    let (calls, mut problems) = done.with_context(|| name.to_string())?;
    let late = nccl::late_lines();
    if late > 0 {
        problems.push(format!("in all: {late} lines to NCCL's logger without a communicator"));
    }
    for problem in &problems {
        eprintln!("{name}, {problem}");
    }
    println!("{name}: {calls} calls, {} problems", problems.len());
    Ok(if problems.is_empty() { Outcome::Well } else { Outcome::Wrong })
}

/// Reads a script. Names of commands, and options of init, start and state, are checked even if they will not run.
fn parse(text: &str) -> anyhow::Result<Block> {
    // The lines with a block that is still open, each with the lines before it.
    let mut open: Vec<(Line, Vec<Line>)> = Vec::new();
    let mut lines: Vec<Line> = Vec::new();
    for (text, number) in text.lines().zip(1..) {
        let words = text.split_whitespace().take_while(|word| !word.starts_with('#'));
        let mut words: Vec<String> = words.map(str::to_owned).collect();
        if words.is_empty() {
            continue;
        }
        if words == ["}"] {
            let (mut owner, before) = open.pop().with_context(|| format!("line {number}: a }} without its {{"))?;
            owner.block = Some(std::mem::replace(&mut lines, before).into());
            lines.push(owner);
            continue;
        }
        let opens = words.pop_if(|word| word == "{").is_some();
        // With numbers in place of these, only to see whether there is a mistake.
        let placed = words.iter().map(|word| word.replace("%t", "0").replace("%i", "0")).collect();
        let command = read(placed, opens).with_context(|| format!("line {number}"))?;
        let command = (!words.iter().any(|word| word.contains('%'))).then_some(command);
        let line = Line { number, words, command, block: None };
        if opens {
            open.push((line, std::mem::take(&mut lines)));
        } else {
            lines.push(line);
        }
    }
    if let Some((owner, _)) = open.last() {
        bail!("line {}: this {{ has no }}", owner.number);
    }
    Ok(lines.into())
}
