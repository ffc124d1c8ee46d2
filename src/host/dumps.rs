//! The names of NCCL's dumps in this process's environment, where `nccl-otf2 run` put them.

use std::ffi::{CStr, CString};

use journal::part;
use journal::part::Dump;
use journal::part::environment::JobEnvironment;

/// Gives the dumps the name of this process, before NCCL knows the topology. One process of each host writes them: as
/// the rank of the job, which it has in the communicator of all. Where the launcher names no rank it stays 0.
pub(crate) fn name(part: &str, environment: &JobEnvironment) {
    let is_chosen = environment.local_rank.unwrap_or(0) == 0;
    for dump in Dump::ALL {
        let is_ours = rename(dump, part::key(part), 0);
        if is_ours && (environment.rank.is_some() || !is_chosen) {
            let rank = part::rank(environment.rank.filter(|_| is_chosen));
            rewrite(dump.rank_variable(), |_| Some(rank));
        }
    }
}

/// The next communicator's dumps have names of their own.
pub(crate) fn number(part: &str, communicators: u32) {
    for dump in Dump::ALL {
        rename(dump, part::key(part), communicators);
    }
}

/// The path of a dump that the user asked for; empty if there is none.
pub(crate) fn of_user(dump: Dump) -> String {
    let path = std::env::var(dump.variable()).unwrap_or_default();
    match path.is_empty() || dump.renamed(&path, 0, 0).is_some() {
        true => String::new(),
        false => std::path::absolute(&path).map_or(path, |path| path.display().to_string()),
    }
}

/// Returns whether the variable had such a name.
fn rename(dump: Dump, key: u64, number: u32) -> bool {
    rewrite(dump.variable(), |path| dump.renamed(path, key, number))
}

/// Writes another value of the same length over that of a variable. `setenv` would move the environment away from
/// under other threads that read it.
fn rewrite(variable: &str, edit: impl FnOnce(&str) -> Option<String>) -> bool {
    let Ok(variable) = CString::new(variable) else {
        return false;
    };
    // SAFETY: a string; what it returns stays until somebody unsets the variable, which nobody does with NCCL's.
    let place = unsafe { libc::getenv(variable.as_ptr()) };
    if place.is_null() {
        return false;
    }
    // SAFETY: the environment's strings end with a NUL.
    let value = unsafe { CStr::from_ptr(place) }.to_str().ok().map(str::to_owned);
    let Some((value, edited)) = value.and_then(|value| edit(&value).map(|edited| (value, edited))) else {
        return false;
    };
    if value.len() != edited.len() {
        return false;
    }
    for (at, byte) in edited.bytes().enumerate() {
        // SAFETY: `at` is less than the length of the value, which was compared above.
        let place = unsafe { place.add(at) };
        // SAFETY: only `nccl-otf2 run` sets such a value, before `execve`, which puts it into writable memory. A thread
        // that reads it meanwhile sees the old or the new digit: the terminating NUL stays.
        unsafe { place.cast::<u8>().write_volatile(byte) };
    }
    true
}
