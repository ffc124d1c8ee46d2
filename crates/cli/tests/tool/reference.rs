//! The list of JSON reports in `docs/REFERENCE.md` §9 is what `--json-schema` prints (`UPDATE_DOCS=1` writes it).

use std::fmt::Write as _;

use serde_json::Value;
use whole_plugin::pages;

use super::support::Scratch;

const VERBS: [&str; 12] =
    ["doctor", "finalize", "info", "stats", "diff", "report", "check", "hang", "top", "watch", "merge", "export"];

/// The schemas of a verb's documents: one, or the two of which its options choose one.
fn documents(schema: &Value) -> Vec<&Value> {
    let of = |one: &Value| one["$ref"].as_str().and_then(|reference| schema.pointer(reference.trim_start_matches('#')));
    match schema["anyOf"].as_array() {
        Some(documents) => documents.iter().map(|one| of(one).expect("a definition")).collect(),
        None => vec![schema],
    }
}

/// The fields of a document; `[]` marks a list.
fn fields(document: &Value) -> String {
    let is_list = |field: &Value| {
        let kind = &field["type"];
        kind == "array" || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "array"))
    };
    let fields = document["properties"].as_object().expect("an object").iter();
    let fields = fields.map(|(name, field)| format!("`{name}{}`", if is_list(field) { "[]" } else { "" }));
    fields.collect::<Vec<String>>().join(", ")
}

#[test]
fn the_page_lists_the_reports() {
    let scratch = Scratch::new();
    let mut table = String::from("| verb | fields |\n|---|---|\n");
    for verb in VERBS {
        let schema = serde_json::from_str(&scratch.ends([verb, "--json-schema"]).stdout).expect("a schema");
        let texts: Vec<String> = documents(&schema).into_iter().map(fields).collect();
        let name = if verb == "top" { "`top`, `metrics`".to_owned() } else { format!("`{verb}`") };
        writeln!(table, "| {name} | {} |", texts.join("; or ")).expect("a string takes everything");
    }
    pages::compare("REFERENCE.md", "reports", &table);
}
