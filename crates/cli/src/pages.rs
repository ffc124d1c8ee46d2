//! `nccl-otf2 pages`: man pages and completions for shells, from the definition of the command line. Also
//! `--json-schema`: the JSON Schema of what a verb prints with `--json`, from the types that it prints.

use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::command_line::Exit;
use crate::{check, command_line, doctor, dump, export, finalize, info, merge, report, watch};
use anyhow::{Context as _, Result};
use clap::{Arg, ArgAction, ArgMatches, Args, Command};
use clap_complete::{Generator, Shell, generate};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

const NAME: &str = "nccl-otf2";

/// Where each shell looks for completions, below `share`.
const SHELLS: [(Shell, &str); 3] = [
    (Shell::Bash, "bash-completion/completions/nccl-otf2"),
    (Shell::Zsh, "zsh/site-functions/_nccl-otf2"),
    (Shell::Fish, "fish/vendor_completions.d/nccl-otf2.fish"),
];

/// A longer indented line is wrapped if it is prose.
const LONGEST_LINE: usize = 90;

#[derive(Debug, Args)]
pub(crate) struct Request {
    /// Directory laid out as a prefix's share: /usr/local/share or ~/.local/share
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub(crate) fn pages(request: &Request, command: &Command) -> Result<Exit> {
    let share = &request.directory;
    let mut command = without_hidden_verbs(command);
    command.build();
    for (shell, place) in SHELLS {
        write(&share.join(place), &completions(shell, &command))?;
    }
    for page in command.get_subcommands().chain([&command]) {
        let name = page.get_display_name().unwrap_or(NAME);
        let text = man(page, &command).context("cannot make a man page")?;
        write(&share.join("man/man1").join(format!("{name}.1")), &text)?;
        if let Some(schema) = schema_of_verb(page.get_name()) {
            let text = serde_json::to_vec_pretty(&schema).context("cannot write JSON")?;
            write(&share.join("nccl-otf2/json-schema").join(format!("{}.json", page.get_name())), &text)?;
        }
    }
    Ok(Exit::Well)
}

fn write(file: &Path, text: &[u8]) -> Result<()> {
    let folder = file.parent().unwrap_or(file);
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(file, text).with_context(|| format!("cannot write {}", file.display()))
}

/// Removes hidden verbs, which `clap_complete` would offer.
fn without_hidden_verbs(command: &Command) -> Command {
    let verbs = command.get_subcommands().filter(|verb| !verb.is_hide_set());
    Command::new(NAME)
        .about(command.get_about().cloned().unwrap_or_default())
        .after_help(command.get_after_help().cloned().unwrap_or_default())
        .version(command_line::short())
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .subcommands(verbs.cloned())
}

fn completions(shell: impl Generator, command: &Command) -> Vec<u8> {
    let mut text = Vec::new();
    generate(shell, &mut command.clone(), NAME, &mut text);
    // Correct clap_complete 4.6.11 for bash: it takes the hyphen in the program's name for the separator before a
    // verb, and then completes no option.
    String::from_utf8_lossy(&text).replace("nccl__subcmd__otf2", "nccl__otf2").into_bytes()
}

fn man(page: &Command, all: &Command) -> io::Result<Vec<u8>> {
    let name = page.get_display_name().unwrap_or(NAME);
    let usage = page.clone().render_usage().to_string();
    // Override the usage that clap_mangen derives, which lists every option.
    let usage = usage.trim_start_matches("Usage: ").to_owned();
    let man = Man::new(page.clone().override_usage(usage)).title(name.to_uppercase());
    // Write the date as `""`: clap_mangen drops an empty one, and the fields of the footer shift.
    let man = man.date("\"\"").source(format!("{NAME} {}", command_line::short())).manual("NCCL traces in OTF2");

    let about = page.get_about().map(ToString::to_string).unwrap_or_default();
    let help = page.get_after_long_help().or_else(|| page.get_after_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let (mut description, mut rest) = (Roff::new(), Roff::new());
    // Turn off hyphenation and justification, which damage names of options.
    description.control("nh", []).control("ad", ["l"]);
    description.control("SH", ["DESCRIPTION"]).text([roman(format!("{}.", about.trim_end_matches('.')))]);
    for paragraph in help.split("\n\n") {
        if let Some(examples) = paragraph.strip_prefix("Examples:\n") {
            rest.control("SH", ["EXAMPLES"]);
            render(examples, &mut rest);
        } else if let Some(codes) = paragraph.strip_prefix("Exit codes: ") {
            rest.control("SH", ["EXIT STATUS"]);
            render(codes, &mut rest);
        } else {
            description.control("PP", []);
            render(paragraph, &mut description);
        }
    }
    rest.control("SH", ["SEE ALSO"]).text([roman(see_also(page, all, &help))]);
    rest.control("PP", []).text([roman(format!("Pages that are named docs/… are in share/doc/{NAME}/docs."))]);

    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    description.to_writer(&mut text)?;
    if page.has_subcommands() {
        man.render_subcommands_section(&mut text)?;
    }
    man.render_options_section(&mut text)?;
    rest.to_writer(&mut text)?;
    Ok(text)
}

/// Indented lines keep their breaks, and the spaces in them.
fn render(paragraph: &str, roff: &mut Roff) {
    let mut was_indented = false;
    for line in paragraph.lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        let is_prose = line.len() > LONGEST_LINE && !text.starts_with(NAME);
        if indent == 0 && was_indented {
            roff.control("PP", []);
        }
        match (indent, is_prose) {
            (0, _) => roff.text([roman(text)]),
            (_, true) => roff.control("RS", [indent.to_string().as_str()]).text([roman(text)]).control("RE", []),
            _ => roff.control("nf", []).text([roman(line)]).control("fi", []),
        };
        was_indented = indent > 0;
    }
}

/// The pages of the verbs that the help names.
fn see_also(page: &Command, all: &Command, help: &str) -> String {
    let is_named = |verb: &&Command| {
        let name = verb.get_name();
        let names = [format!("{NAME} {name} "), format!("{NAME} {name}`"), format!("`{name}`")];
        name != page.get_name() && names.iter().any(|name| help.contains(name))
    };
    let verbs = all.get_subcommands().filter(is_named).map(|verb| format!("{NAME}-{}(1)", verb.get_name()));
    let whole = (page.get_name() != NAME).then(|| format!("{NAME}(1)"));
    whole.into_iter().chain(verbs).collect::<Vec<String>>().join(", ")
}

const OPTION: &str = "json-schema";

/// Either of two documents, by the verb's options.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "a type for its schema")]
enum Either<One, Other> {
    One(One),
    Other(Other),
}

/// The schema of the document, or of each line.
pub(crate) fn schema_of_verb(verb: &str) -> Option<Schema> {
    Some(match verb {
        "doctor" => schema::<doctor::Report>(),
        "finalize" => schema::<finalize::Report>(),
        "info" => schema::<info::Report<'_>>(),
        "stats" => schema::<analysis::results::Report>(),
        "diff" => schema::<analysis::results::Comparison>(),
        "report" => schema::<Either<report::Summary, report::DiffSummary>>(),
        "check" => schema::<check::Json<'_>>(),
        "hang" => schema::<hang::Report>(),
        "top" | "metrics" => schema::<dump::Line<'_>>(),
        "watch" => schema::<Either<hang::Report, watch::SlowReport>>(),
        "merge" => schema::<merge::Json<'_>>(),
        "export" => schema::<Either<export::Json, export::CommunicatorsJson>>(),
        _ => return None,
    })
}

fn schema<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

/// Adds `--json-schema` to the verbs that have `--json` and a schema.
pub(crate) fn with_option(command: Command) -> Command {
    let verbs: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    verbs.into_iter().filter(|verb| schema_of_verb(verb).is_some()).fold(command, |command, verb| {
        command.mut_subcommand(verb, |verb| {
            let option = Arg::new(OPTION).long(OPTION).action(ArgAction::SetTrue).exclusive(true);
            verb.arg(option.help("Print the JSON Schema of the output of --json, which explains its fields, and exit"))
        })
    })
}

/// The schema that was asked for.
pub(crate) fn requested_schema(matches: &ArgMatches) -> Option<Schema> {
    let (verb, matches) = matches.subcommand()?;
    let is_asked = matches.try_get_one::<bool>(OPTION).is_ok_and(|value| value == Some(&true));
    if is_asked { schema_of_verb(verb) } else { None }
}
