//! Finds the NCCL libraries that a job could use here.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;

use super::environment::Environment;
use super::report::Findings;
use crate::plugin::python_packages;
use crate::slot::{Library, Nccl};

const NAMES: [&str; 2] = ["libnccl.so.2", "librccl.so.1"];

pub(super) struct Found {
    pub(super) library: Library,
    pub(super) nccl: Nccl,
    pub(super) by: String,
}

pub(super) fn find(here: &Environment, named: &[PathBuf], findings: &mut Findings) -> Result<Vec<Found>> {
    let mut all = Vec::new();
    for path in named {
        let before = all.len();
        let is_python = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python"));
        if path.is_dir() {
            in_prefix(path, "named", &mut all, findings);
        } else if is_python {
            of_python(here, path, &mut all, findings);
        } else {
            in_file(here, path, &mut all, findings)?;
        }
        if all.len() == before {
            let text = format!("there is no NCCL in {}", path.display());
            findings.problem("nccl", text, "name libnccl.so.2, a program that uses NCCL, or a Python environment");
        }
    }
    if !named.is_empty() {
        return Ok(all);
    }
    for name in NAMES {
        for (file, by) in here.loader.all(name) {
            add(&file, by, &mut all);
        }
    }
    if let Some(python) = python_on_path() {
        of_python(here, &python, &mut all, findings);
    }
    if all.is_empty() {
        findings.warning(
            "nccl",
            "no NCCL was found: not by the loader, and not beside the Python on PATH",
            "load the job's modules or environment first, or name the library: nccl-otf2 doctor PATH",
        );
    }
    Ok(all)
}

fn add(file: &Path, by: &str, all: &mut Vec<Found>) {
    let is_same = |found: &Found| found.library.path.canonicalize().ok() == file.canonicalize().ok();
    if let Some(found) = all.iter_mut().find(|found| is_same(found)) {
        if !found.by.contains(by) {
            found.by = format!("{}; {by}", found.by);
        }
        return;
    }
    let library = Library::read(file).ok().filter(|library| library.nccl.is_some());
    all.extend(library.and_then(|library| Some(Found { nccl: library.nccl.clone()?, library, by: by.to_owned() })));
}

fn in_file(here: &Environment, path: &Path, all: &mut Vec<Found>, findings: &mut Findings) -> Result<()> {
    let library = Library::read(path)?;
    let shown = path.display();
    if library.needed.iter().any(|name| name.starts_with("libscorep")) {
        let text = format!("{shown} is instrumented by Score-P: NCCL's calls are shown in its trace, too");
        findings.note("scorep", text, "docs/SCOREP.md");
    }
    for name in library.needed.iter().filter(|name| NAMES.contains(&name.as_str())) {
        match here.loader.find(name) {
            Some(file) => add(&file, &format!("needed by {shown}"), all),
            None => findings.warning(
                "nccl",
                format!("{shown} needs {name}, which the loader does not find"),
                "add its directory to LD_LIBRARY_PATH, unless the program has a path of its own to it",
            ),
        }
    }
    add(path, "named", all);
    Ok(())
}

fn python_on_path() -> Option<PathBuf> {
    let folders: Vec<PathBuf> = env::split_paths(&env::var_os("PATH").unwrap_or_default()).collect();
    let named = |name: &str| folders.iter().map(|folder| folder.join(name)).find(|file| file.is_file());
    named("python").or_else(|| named("python3"))
}

/// Finds the libraries of a Python interpreter by the usual directory layout, without running it.
fn of_python(here: &Environment, python: &Path, all: &mut Vec<Found>, findings: &mut Findings) {
    let by = format!("beside {}", python.display());
    if fs::read(python).is_ok_and(|text| text.starts_with(b"#!")) {
        let text = format!("{} is a script (pyenv's?), and which Python it starts is not known", python.display());
        findings.note("nccl", text, "name the environment: nccl-otf2 doctor DIR");
        return;
    }
    let real = python.canonicalize().unwrap_or_else(|_| python.to_owned());
    for prefix in [python, &real].into_iter().filter_map(|python| python.parent()?.parent()) {
        in_prefix(prefix, &by, all, findings);
        // A virtual environment sees its interpreter's packages only if it says so.
        let settings = fs::read_to_string(prefix.join("pyvenv.cfg"));
        if settings.is_ok_and(|settings| !settings.contains("include-system-site-packages = true")) {
            return;
        }
    }
    if let Some(home) = here.variable("HOME") {
        in_prefix(&Path::new(home).join(".local"), &by, all, findings);
    }
}

/// Looks in a directory of libraries, an installation of NCCL or Conda, or a Python environment.
fn in_prefix(prefix: &Path, by: &str, all: &mut Vec<Found>, findings: &mut Findings) {
    for folder in ["", "lib", "lib64"] {
        for name in NAMES {
            add(&prefix.join(folder).join(name), by, all);
        }
    }
    for packages in python_packages(prefix) {
        add(&packages.join("nvidia/nccl/lib").join(NAMES[0]), &format!("{by}: NVIDIA's package"), all);
        let torch = packages.join("torch/lib/libtorch_cuda.so");
        let Ok(library) = Library::read(&torch) else {
            continue;
        };
        if library.needed.iter().any(|name| name == NAMES[0]) {
            let text = format!("PyTorch in {} uses an NCCL library: it has none linked in", packages.display());
            findings.ok("nccl", text);
        } else {
            add(&torch, &format!("{by}: linked into PyTorch, which uses no other"), all);
        }
    }
}
