//! Finds the commands in pages and in `--help`.

use std::fs;
use std::path::Path;
use std::process::Command;

use whole_plugin::built;
use whole_plugin::process::run;

use super::{INSTEAD, NOT_RUN};

pub(super) struct Script {
    pub(super) place: String,
    pub(super) text: String,
    /// How many lines call the tool.
    pub(super) commands: usize,
}

impl Script {
    /// `None` if no line of it calls the tool.
    fn new(place: String, lines: impl IntoIterator<Item = String>) -> Option<Self> {
        let mut text = String::new();
        let mut commands = 0;
        for line in lines {
            if NOT_RUN.iter().any(|(part, _)| line.contains(part)) {
                continue;
            }
            // What a page starts in the background ends by itself here.
            let mut line = line.trim_end_matches(" &").to_owned();
            for (part, instead) in INSTEAD {
                line = line.replace(part, instead);
            }
            commands += usize::from(calls_the_tool(&line));
            text += &line;
            text.push('\n');
        }
        (commands > 0).then_some(Self { place, text, commands })
    }
}

/// Whether the line has the tool's name where a command begins: a word, not a part of a path or of text.
fn calls_the_tool(line: &str) -> bool {
    let code = line.split(" #").next().unwrap_or_default();
    !code.starts_with('#') && code.split([' ', '\'']).any(|word| word == "nccl-otf2")
}

/// The scripts of a page: its blocks of `sh`, and lines of other blocks that begin with `$ `.
pub(super) fn scripts_of_page(page: &Path) -> Vec<Script> {
    let text = fs::read_to_string(page).expect("the page");
    let name = page.file_name().unwrap_or_default().to_string_lossy();
    let mut scripts = Vec::new();
    let mut blocks = text.split("\n```");
    let mut line_number = blocks.next().map_or(0, |before| before.lines().count());
    // What is between fences is a block and text behind it, in turn.
    for (index, part) in blocks.enumerate() {
        if index % 2 == 0 {
            let (language, block) = part.split_once('\n').unwrap_or((part, ""));
            let place = format!("{name}:{}", line_number + 1);
            let lines = joined(block);
            match language {
                "sh" => scripts.extend(Script::new(place, lines)),
                _ => {
                    let typed = lines.iter().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned);
                    scripts.extend(Script::new(place, typed));
                }
            }
        }
        line_number += part.matches('\n').count() + 1;
    }
    scripts
}

/// Lines, with those that end in a backslash in one.
fn joined(block: &str) -> Vec<String> {
    block.replace("\\\n", " ").lines().map(str::to_owned).collect()
}

/// The examples of the tool's help: indented lines that call it, up to the text beside them.
pub(super) fn scripts_of_help() -> Vec<Script> {
    let help = |arguments: &[&str]| run(Command::new(built::nccl_otf2()).args(arguments)).with_code(0).stdout;
    let overview = help(&["--help"]);
    let verbs = overview.lines().skip_while(|line| *line != "Commands:").skip(1);
    let verbs = verbs.take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    let verbs = verbs.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split_whitespace().next());
    let verbs: Vec<&str> = verbs.filter(|verb| *verb != "help").collect();
    assert!(verbs.contains(&"doctor") && verbs.contains(&"export"), "{verbs:?}");
    let pages = verbs.iter().map(|verb| (*verb, help(&[verb, "--help"])));
    let mut scripts = Vec::new();
    for (verb, page) in pages.chain([("the overview", overview.clone())]) {
        for line in page.lines().filter_map(|line| line.strip_prefix("  ")) {
            let example = line.split("   ").next().unwrap_or_default();
            if calls_the_tool(example) && begins_a_command(example) {
                scripts.extend(Script::new(format!("--help of {verb}"), [example.to_owned()]));
            }
        }
    }
    scripts
}

/// Text that names the tool is no example.
fn begins_a_command(line: &str) -> bool {
    let first = line.split(' ').find(|word| !word.contains('=')).unwrap_or_default();
    ["nccl-otf2", "srun", "mpirun"].contains(&first)
}
