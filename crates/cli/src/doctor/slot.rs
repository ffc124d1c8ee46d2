//! Who has NCCL's single slot for a profiler plugin, and NVTX's for an injection.

use std::path::{Path, PathBuf};

use settings::{NvtxChoice, shell_word};

use super::environment::Environment;
use super::report::{Findings, NcclRow};
use crate::slot::{
    Behind, FIRST_WITH_ENV_PLUGIN, INJECTION, Injection, Library, OURS, PLUGIN, Search, behind, env_plugin, injection,
    search,
};

/// Determines which plugin this NCCL would load, and records it in the NCCL's row.
pub(super) fn slot(here: &Environment, nccl: &Library, number: u32, row: &mut NcclRow, findings: &mut Findings) {
    let release = row.release.as_str();
    let setting = here.variables.get(PLUGIN);
    let value = setting.map(|setting| setting.value.as_str());
    let given = setting.map_or_else(|| format!("{PLUGIN} is not set"), ToString::to_string);
    overruled(here, number, release, findings);
    let who = format!("{given}: NCCL {release}");
    let advice = way_out(here, number);
    row.plugin_names = match search("profiler", number, value) {
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
            findings.problem("plugin", format!("{who} cannot load its plugin: {error}"), &advice);
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
            let profiler = library.as_profiler();
            profiler.map_err(|error| findings.problem("plugin", format!("{given}: {error}"), &advice)).ok()
        }
    };
    match profiler {
        None => {}
        Some(OURS) => findings.ok("plugin", format!("{who} loads {shown}, this project's plugin")),
        Some(other) => {
            let text = format!("{who} loads {other} ({shown}) and, as it takes one profiler only, not this project's");
            let behind = format!("{advice} and NCCL_OTF2_CHAIN={shown}: both call it behind this project's");
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
    let folder = shell_word(plugin.parent().unwrap_or(plugin));
    let name = plugin.file_name().unwrap_or_default().display();
    let value = match release {
        22_600.. if release != 22_703 => shell_word(plugin),
        _ => format!("{name} LD_LIBRARY_PATH={folder}:$LD_LIBRARY_PATH"),
    };
    format!("nccl-otf2 run{by_name} -- COMMAND, or export {PLUGIN}={value}")
}

/// NCCL may ask a plugin for its variables, and not the environment.
fn overruled(here: &Environment, number: u32, release: &str, findings: &mut Findings) {
    let Some((given, file)) = env_plugin(&here.variables, &here.loader).filter(|_| number >= FIRST_WITH_ENV_PLUGIN)
    else {
        return;
    };
    let text = format!(
        "{given}: NCCL {release} takes its variables from {}, which can overrule {PLUGIN} of the environment",
        file.display()
    );
    findings.warning("plugin", text, "NCCL_ENV_PLUGIN=none keeps it out");
}

pub(super) fn installed(here: &Environment, findings: &mut Findings) {
    const ADVICE: &str = "nccl-otf2 run --plugin FILE";
    let file = match &here.plugin {
        Ok(file) => file,
        Err(error) => return findings.warning("plugin", error.to_string(), ADVICE),
    };
    match Library::read(file).and_then(|library| library.as_profiler().map(|_| library)) {
        Ok(library) => {
            findings.ok("plugin", format!("nccl-otf2 run loads {}", file.display()));
            missing(here, &library, findings);
        }
        Err(error) => findings.problem("plugin", format!("nccl-otf2 run has no plugin: {error}"), ADVICE),
    }
}

/// Examines the plugins that this one is to call (`NCCL_OTF2_CHAIN`).
pub(super) fn chained(here: &Environment, findings: &mut Findings) {
    for name in &here.config.chain {
        let (text, advice) = match behind(&here.loader, name) {
            Behind::Plugin(file, profiler) => {
                findings.ok("plugin", format!("NCCL_OTF2_CHAIN={name}: {profiler} is behind ours: {}", file.display()));
                continue;
            }
            Behind::Missing(reason) => (reason, "name its file with its path"),
            Behind::Ours => ("that is this project's plugin itself".to_owned(), "take it out of NCCL_OTF2_CHAIN"),
            Behind::Unusable(reason) => (reason, "take it out of NCCL_OTF2_CHAIN"),
        };
        findings.warning("plugin", format!("NCCL_OTF2_CHAIN={name}: {text}; it is left out"), advice);
    }
}

/// Says who gets the ranges that programs and NCCL hand to NVTX.
pub(super) fn ranges(here: &Environment, findings: &mut Findings) {
    if here.config.nvtx == NvtxChoice::Off {
        return findings.note("nvtx", "NCCL_OTF2_NVTX=off: NVTX ranges are not recorded", "");
    }
    let plugin = here.plugin.as_ref().map_or_else(|_| "FILE".to_owned(), |file| shell_word(file));
    let export = format!("nccl-otf2 run -- COMMAND, or export {INJECTION}={plugin}");
    let unset = format!("unset {INJECTION}, then {export}");
    match injection(&here.variables, &here.loader) {
        (Injection::Unset, _) => {
            let text = format!("{INJECTION} is not set: NVTX ranges are not recorded without nccl-otf2 run");
            findings.note("nvtx", text, &export);
        }
        (Injection::Ours(file), value) => {
            let real = |file: &Path| file.canonicalize().ok();
            let loaded = profiler(here);
            if loaded.as_deref().is_none_or(|loaded| real(loaded) == real(&file)) {
                return findings.ok("nvtx", format!("{INJECTION}={value}: this project's plugin gets NVTX ranges"));
            }
            let other = loaded.unwrap_or_default();
            let shown = other.display();
            let text = format!(
                "{INJECTION}={value} is another copy than {PLUGIN} has ({shown}): NVTX ranges are not recorded"
            );
            let same = format!("nccl-otf2 run -- COMMAND, or export {INJECTION}={}", shell_word(&other));
            findings.warning("nvtx", text, &same);
        }
        (Injection::Of(who), value) => {
            let text = format!("{INJECTION}={value}: {who} gets NVTX ranges, and they are not recorded");
            findings.note("nvtx", text, &unset);
        }
        (Injection::Nobody(reason), _) => {
            findings.warning("nvtx", format!("{INJECTION}: {reason}; nobody gets NVTX ranges"), &unset);
        }
    }
}

/// The copy of this project's plugin that a job would load by its variable.
fn profiler(here: &Environment) -> Option<PathBuf> {
    let setting = here.variables.get(PLUGIN)?;
    let is_ours = |file: &PathBuf| Library::read(file).is_ok_and(|library| library.profiler == Some(OURS));
    // Any release will do: where they differ in how they read the value, `slot` says so.
    match search("profiler", FIRST_WITH_ENV_PLUGIN, Some(&setting.value)) {
        Search::Names(names) => names.iter().find_map(|name| here.loader.find(name)).filter(is_ours),
        Search::Nothing | Search::Program => None,
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
