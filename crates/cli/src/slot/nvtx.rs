//! NVTX's injection: the one library to which a process hands its ranges.

use std::path::PathBuf;

use super::library::{Library, OURS};
use super::loader::Loader;
use super::variables::Variables;

/// Names the injection for processes of 64 bits. There is no NCCL for others.
pub(crate) const INJECTION: &str = "NVTX_INJECTION64_PATH";

/// Tools that set the variable, by a part of their library's path.
const TOOLS: [(&str, &str); 5] = [
    ("libToolsInjection", "Nsight Systems"),
    ("nsight-compute", "Nsight Compute"),
    ("sanitizer", "Compute Sanitizer"),
    ("scorep", "Score-P"),
    ("libcupti", "CUPTI"),
];

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Injection {
    Unset,
    /// A copy of this project's plugin. Ranges are recorded if NCCL loads the same file.
    Ours(PathBuf),
    /// Another tool, by its name where it is known.
    Of(&'static str),
    /// No library that can be loaded, with the reason.
    Nobody(String),
}

/// Who has NVTX's variable, and its value. NCCL's files set it too late.
pub(crate) fn injection<'a>(variables: &'a Variables, loader: &Loader) -> (Injection, &'a str) {
    let Some(setting) = variables.get(INJECTION).filter(|setting| setting.file.is_none()) else {
        return (Injection::Unset, "");
    };
    let value = setting.value.as_str();
    let who = match loader.find(value).map(|file| Library::read(&file)) {
        None => Injection::Nobody(format!("the loader does not find {value}")),
        Some(Err(error)) => Injection::Nobody(error.to_string()),
        Some(Ok(library)) if library.profiler == Some(OURS) => Injection::Ours(library.path),
        Some(Ok(_)) => {
            let known = TOOLS.iter().find(|(part, _)| value.contains(part));
            Injection::Of(known.map_or("another tool", |(_, name)| name))
        }
    };
    (who, value)
}
