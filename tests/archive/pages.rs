//! The tables of variables, attributes and fields of events in `docs/REFERENCE.md` are what the code has (`UPDATE_DOCS=1`
//! writes them into the page).

use std::collections::BTreeSet;
use std::fmt::Write as _;

use nccl_events::Kind;
use nccl_events::event::{FIELDS, Style};
use nccl_events::schema::AttributeId;
use settings::VARIABLES;
use whole_plugin::pages;

/// Texts that break no table.
fn cells<const N: usize>(texts: [&str; N]) -> [&str; N] {
    for text in texts {
        assert!(!text.is_empty() && !text.contains(['|', '\n']), "{text:?} breaks the table");
    }
    texts
}

#[test]
fn the_variables_of_the_plugin() {
    let mut table = String::from("| variable | values | default | what it does |\n|---|---|---|---|\n");
    for variable in VARIABLES {
        let [values, default, doc, name] = cells([variable.values, variable.default, variable.doc, variable.name]);
        writeln!(table, "| `{name}` | {values} | {default} | {doc} |").expect("a string takes everything");
    }
    pages::compare("REFERENCE.md", "variables", &table);
}

/// The fields that an attribute follows from: " (`count`)".
fn fields(attribute: AttributeId) -> String {
    let fields = FIELDS.iter().filter(|field| field.attributes.contains(&attribute));
    let labels: BTreeSet<String> = fields.map(|field| format!("`{}`", field.label)).collect();
    let labels: Vec<String> = labels.into_iter().collect();
    if labels.is_empty() { String::new() } else { format!(" ({})", labels.join(", ")) }
}

#[test]
fn the_attributes_of_events() {
    let mut table = String::from("| attribute | meaning |\n|---|---|\n");
    for attribute in AttributeId::ALL {
        let (name, of, meaning) = (attribute.name(), attribute.value_type(), attribute.description());
        writeln!(table, "| `{name}` {of:?} | {meaning}{} |", fields(*attribute)).expect("a string takes everything");
    }
    pages::compare("REFERENCE.md", "attributes", &table);
}

#[test]
fn the_fields_of_events() {
    let mut table = String::from("| type | details |\n|---|---|\n");
    for kind in Kind::ALL.into_iter().filter(|kind| *kind != Kind::Unknown) {
        let fields = FIELDS.iter().filter(|field| field.kind == kind);
        let label = |label: &str, style| format!("`{label}`{}", if style == Style::Rare { "?" } else { "" });
        let labels: Vec<String> = fields.map(|field| label(field.label, field.style)).collect();
        let labels = if labels.is_empty() { "none".to_owned() } else { labels.join(", ") };
        writeln!(table, "| `{}` | {labels} |", kind.name()).expect("a string takes everything");
    }
    pages::compare("REFERENCE.md", "details", &table);
}
