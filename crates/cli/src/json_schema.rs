//! The JSON Schema of what a verb prints with `--json`, from the types that it prints.

use clap::{Arg, ArgAction, ArgMatches, Command};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema};

use crate::{check, doctor, export, finalize, info, merge, report, running, watch};

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
pub(crate) fn of(verb: &str) -> Option<Schema> {
    Some(match verb {
        "doctor" => schema::<doctor::Report>(),
        "finalize" => schema::<finalize::Report>(),
        "info" => schema::<info::Report<'_>>(),
        "stats" => schema::<analysis::results::Report>(),
        "diff" => schema::<analysis::results::Comparison>(),
        "report" => schema::<Either<report::Summary, report::DiffSummary>>(),
        "check" => schema::<check::Json<'_>>(),
        "hang" => schema::<hang::Report>(),
        "top" | "metrics" => schema::<running::Line<'_>>(),
        "watch" => schema::<Either<hang::Report, watch::SlowReport>>(),
        "merge" => schema::<merge::Json<'_>>(),
        "export" => schema::<Either<export::Json, export::communicators::Json>>(),
        _ => return None,
    })
}

fn schema<T: JsonSchema>() -> Schema {
    SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<T>()
}

/// Adds `--json-schema` to the verbs that have `--json` and a schema.
pub(crate) fn with_option(command: Command) -> Command {
    let verbs: Vec<String> = command.get_subcommands().map(|verb| verb.get_name().to_owned()).collect();
    verbs.into_iter().filter(|verb| of(verb).is_some()).fold(command, |command, verb| {
        command.mut_subcommand(verb, |verb| {
            let option = Arg::new(OPTION).long(OPTION).action(ArgAction::SetTrue).exclusive(true);
            verb.arg(option.help("Print the JSON Schema of what --json prints, and do nothing else"))
        })
    })
}

/// The schema that was asked for.
pub(crate) fn asked(matches: &ArgMatches) -> Option<Schema> {
    let (verb, matches) = matches.subcommand()?;
    let is_asked = matches.try_get_one::<bool>(OPTION).is_ok_and(|it| it == Some(&true));
    if is_asked { of(verb) } else { None }
}
