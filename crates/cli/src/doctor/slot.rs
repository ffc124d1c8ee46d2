//! NCCL's single slot for a profiler plugin: the names a release looks for, and the file it would find.

use nccl_events::Table;

use super::environment::Environment;
use super::library::{Library, OURS};
use super::report::{Findings, NcclRow};

const VARIABLE: &str = "NCCL_PROFILER_PLUGIN";

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Search {
    /// NCCL loads the first of these names that the loader finds.
    Names(Vec<String>),
    Nothing,
    /// NCCL takes the program itself for the plugin.
    Program,
}

/// How a release looks for its plugin, given this value of `NCCL_PROFILER_PLUGIN`.
pub(super) fn search(release: u32, value: Option<&str>) -> Search {
    let Some(value) = value else {
        return Search::Names(vec!["libnccl-profiler.so".to_owned()]);
    };
    let begins =
        |text: &str| text.len() >= value.len() && text.as_bytes()[..value.len()].eq_ignore_ascii_case(value.as_bytes());
    if release >= 22_803 && value.eq_ignore_ascii_case("none") {
        return Search::Nothing;
    }
    // NCCL compares only as many letters as the value has.
    if begins("STATIC_PLUGIN") {
        return Search::Program;
    }
    let long = format!("libnccl-profiler-{value}.so");
    let is_file = value.contains('/') || value.starts_with("lib") && value.ends_with(".so");
    Search::Names(match release {
        ..22_600 => vec![value.to_owned()],
        // This release's search by path never succeeds.
        22_703 if value.contains('/') => Vec::new(),
        22_803.. if is_file => vec![value.to_owned()],
        _ => vec![value.to_owned(), long],
    })
}

/// Determines which plugin this NCCL would load, and records it in the NCCL's row.
pub(super) fn slot(here: &Environment, nccl: &Library, number: u32, row: &mut NcclRow, findings: &mut Findings) {
    let release = row.release.as_str();
    let value = here.variable(VARIABLE);
    let given = value.map_or_else(|| format!("{VARIABLE} is not set"), |value| format!("{VARIABLE}={value}"));
    let who = format!("{given}: NCCL {release}");
    let advice = way_out(here, number);
    row.plugin_names = match search(number, value) {
        Search::Names(names) => names,
        Search::Nothing => {
            findings.warning("plugin", format!("{who} loads no profiler"), &advice);
            return;
        }
        Search::Program => {
            let why = "(STATIC_PLUGIN, or its first letters)";
            findings.warning("plugin", format!("{who} takes the program itself for the profiler {why}"), &advice);
            return;
        }
    };
    let Some(file) = row.plugin_names.iter().find_map(|name| here.loader.find(name)) else {
        let what = match row.plugin_names.as_slice() {
            [] => "loads no plugin by its path".to_owned(),
            names => format!("does not find {}", names.join(", nor ")),
        };
        match value {
            Some(_) => findings.problem("plugin", format!("{who} {what}, and would record nothing"), &advice),
            None => {
                let text = format!("{who} {what}: nothing is recorded without nccl-otf2 run");
                findings.note("plugin", text, &advice);
            }
        }
        return;
    };
    let shown = file.display();
    let profiler = match Library::read(&file) {
        Err(error) => {
            findings.problem("plugin", format!("{who} cannot load {shown}: {error}"), &advice);
            None
        }
        Ok(library) if library.architecture != nccl.architecture => {
            let (ours, theirs) = (library.architecture, nccl.architecture);
            let text = format!("{given}: {shown} is for {ours:?}, and NCCL {release} for {theirs:?}");
            findings.problem("plugin", text, &advice);
            None
        }
        Ok(library) => {
            missing(here, &library, findings);
            library.profiler.or_else(|| {
                let exports = format!("it exports no ncclProfiler_v1 … {}", Table::NEWEST);
                findings.problem("plugin", format!("{given}: {shown} is no profiler plugin: {exports}"), &advice);
                None
            })
        }
    };
    match profiler {
        None => {}
        Some(OURS) => findings.ok("plugin", format!("{who} loads {shown}, this project's plugin")),
        Some(other) => {
            let text = format!("{who} loads {other} ({shown}) and, as it takes one profiler only, not this project's");
            let behind = format!("{advice}; NCCL_OTF2_CHAIN={shown} puts it behind this project's");
            findings.warning("plugin", text, &behind);
        }
    }
    row.plugin = Some(file.display().to_string());
    row.profiler = profiler;
}

fn way_out(here: &Environment, release: u32) -> String {
    let Ok(plugin) = &here.plugin else {
        return "nccl-otf2 run --plugin FILE -- COMMAND, with this project's plugin".to_owned();
    };
    let by_name = if release == 22_703 { " --by-name" } else { "" };
    let folder = plugin.parent().unwrap_or(plugin).display();
    let name = plugin.file_name().unwrap_or_default().display();
    let value = match release {
        22_600.. if release != 22_703 => plugin.display().to_string(),
        _ => format!("{name} LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH"),
    };
    format!("nccl-otf2 run{by_name} -- COMMAND, or export {VARIABLE}={value}")
}

pub(super) fn installed(here: &Environment, findings: &mut Findings) {
    let library = here.plugin.as_ref().map_err(ToString::to_string);
    let library = library.and_then(|file| Library::read(file).map_err(|error| error.to_string()));
    match library {
        Ok(library) => {
            findings.ok("plugin", format!("nccl-otf2 run loads {}", library.path.display()));
            missing(here, &library, findings);
        }
        Err(error) => findings.warning("plugin", error, "nccl-otf2 run --plugin FILE"),
    }
}

/// Examines the plugins that this one is to call (`NCCL_OTF2_CHAIN`).
pub(super) fn chained(here: &Environment, findings: &mut Findings) {
    for name in &here.config.chain {
        let names = [format!("libnccl-profiler-{name}.so"), name.clone()];
        let names = if name.contains('/') { &names[1..] } else { &names[..] };
        let text = match names.iter().find_map(|name| here.loader.find(name)) {
            None => format!("the loader does not find {}", names.join(", nor ")),
            Some(file) => match Library::read(&file) {
                Ok(Library { profiler: Some(profiler), .. }) if profiler != OURS => {
                    findings
                        .ok("plugin", format!("NCCL_OTF2_CHAIN={name}: {profiler} is behind ours: {}", file.display()));
                    continue;
                }
                Ok(Library { profiler: Some(_), .. }) => "that is this project's plugin itself".to_owned(),
                Ok(_) => format!("{} is no profiler plugin", file.display()),
                Err(error) => error.to_string(),
            },
        };
        let text = format!("NCCL_OTF2_CHAIN={name}: {text}; it is left out");
        findings.warning("plugin", text, "name its file with its path");
    }
}

fn missing(here: &Environment, library: &Library, findings: &mut Findings) {
    let mut missing = library.needed.iter().filter(|name| here.loader.is_known() && here.loader.find(name).is_none());
    if let Some(missing) = missing.next() {
        let shown = library.path.display();
        let text = format!("{shown} needs {missing}, which the loader does not find: no NCCL can load it");
        findings.problem("plugin", text, "add its directory to LD_LIBRARY_PATH");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(release: u32, value: &str) -> Vec<String> {
        match search(release, Some(value)) {
            Search::Names(names) => names,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn each_release_has_its_own_names() {
        assert_eq!(names(22_501, "otf2"), ["otf2"]);
        assert_eq!(names(22_605, "otf2"), ["otf2", "libnccl-profiler-otf2.so"]);
        assert_eq!(names(22_809, "otf2"), ["otf2", "libnccl-profiler-otf2.so"]);
        assert_eq!(names(22_809, "/x/plugin.so"), ["/x/plugin.so"]);
        assert_eq!(names(22_809, "libnccl-profiler-otf2.so"), ["libnccl-profiler-otf2.so"]);
        assert!(names(22_703, "/x/plugin.so").is_empty());
        assert_eq!(search(22_304, None), Search::Names(vec!["libnccl-profiler.so".to_owned()]));
        assert_eq!(search(22_809, Some("None")), Search::Nothing);
        assert_eq!(names(22_707, "none"), ["none", "libnccl-profiler-none.so"]);
        for value in ["STATIC_PLUGIN", "stat"] {
            assert_eq!(search(22_809, Some(value)), Search::Program);
        }
    }
}
