//! Definitions refer to what is defined.

use otf2::{AttributeValue, Definitions, StringRef};

use crate::check::findings::Findings;
use crate::check::rules::Rule;

/// Checks names and all other references but those of the system tree and of communicators.
pub(super) fn check(definitions: &Definitions, findings: &mut Findings) {
    names(definitions, findings);
    properties(definitions, findings);
    let mut wrong = |message: String| findings.general(Rule::DefinitionReference, message);
    for (reference, win) in &definitions.rma_wins {
        if !definitions.comms.contains_key(&win.comm) {
            wrong(format!("{reference:?} is of {:?}, which is not defined", win.comm));
        }
    }
    for (reference, class) in &definitions.metric_classes {
        for member in &class.members {
            if !definitions.metric_members.contains_key(member) {
                wrong(format!("{reference:?} has {member:?}, which is not defined"));
            }
        }
    }
}

/// Every name that is needed is there, and every other that is given.
fn names(definitions: &Definitions, findings: &mut Findings) {
    let mut named = |what: String, role: &str, name: StringRef, is_needed: bool| {
        let is_there = definitions.strings.contains_key(&name);
        if !is_there && (is_needed || name.is_defined()) {
            findings
                .general(Rule::DefinitionReference, format!("{what} has the {role} {name:?}, which is not defined"));
        }
    };
    macro_rules! names {
        ($($field:ident: $($role:ident $is_needed:literal),*;)*) => {
            $(for (reference, it) in &definitions.$field {
                $(named(format!("{reference:?}"), stringify!($role), it.$role, $is_needed);)*
            })*
        };
    }
    names! {
        attributes: name true, description false;
        system_tree_nodes: name true, class_name true;
        location_groups: name true;
        locations: name true;
        regions: name true, canonical_name false, description false, source_file false;
        groups: name false;
        comms: name false;
        rma_wins: name false;
        metric_members: name true, description false, unit false;
        parameters: name true;
        paradigms: name true;
    }
}

/// Properties have names, and texts that are there.
fn properties(definitions: &Definitions, findings: &mut Findings) {
    let mut check = |what: String, properties: &[otf2::records::Property]| {
        for (name, value) in properties {
            let text = match value {
                AttributeValue::String(text) => *text,
                _ => *name,
            };
            for string in [*name, text] {
                if !definitions.strings.contains_key(&string) {
                    let message = format!("a property of {what} has {string:?}, which is not defined");
                    findings.general(Rule::DefinitionReference, message);
                }
            }
        }
    };
    for (reference, it) in &definitions.system_tree_nodes {
        check(format!("{reference:?}"), &it.properties);
    }
    for (reference, it) in &definitions.location_groups {
        check(format!("{reference:?}"), &it.properties);
    }
    for (reference, it) in &definitions.locations {
        check(format!("{reference:?}"), &it.properties);
    }
}
