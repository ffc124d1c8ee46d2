//! System calls that a sandbox denies (seccomp), and limits: whatever is missing, the program ends as it does with a
//! plugin that does nothing.
//!
//! Not denied are calls without which the C library itself ends every program that has threads (`futex`).

use libc::c_long;
use whole_plugin::built;
use whole_plugin::process::run;
use whole_plugin::scratch::Scratch;

use super::{program, survives};

const FAMILIES: [(&str, &[c_long]); 27] = [
    ("open", &[libc::SYS_openat]),
    ("reserve", &[libc::SYS_fallocate]),
    ("map files shared", &[libc::SYS_mmap]),
    ("unmap", &[libc::SYS_munmap]),
    ("advise", &[libc::SYS_madvise]),
    ("protect", &[libc::SYS_mprotect]),
    ("make directories", &[libc::SYS_mkdirat]),
    ("rename", &[libc::SYS_renameat, libc::SYS_renameat2]),
    ("make links", &[libc::SYS_linkat, libc::SYS_symlinkat]),
    ("remove", &[libc::SYS_unlinkat]),
    ("stat", &[libc::SYS_fstat, libc::SYS_newfstatat, libc::SYS_statx, libc::SYS_faccessat]),
    ("lengths", &[libc::SYS_ftruncate, libc::SYS_lseek]),
    ("write", &[libc::SYS_write, libc::SYS_writev, libc::SYS_pwrite64, libc::SYS_pwritev]),
    ("read", &[libc::SYS_read, libc::SYS_pread64]),
    ("close", &[libc::SYS_close]),
    ("random bits", &[libc::SYS_getrandom]),
    ("threads", &[libc::SYS_clone, libc::SYS_clone3]),
    ("prctl", &[libc::SYS_prctl]),
    ("scheduler", &[libc::SYS_sched_yield, libc::SYS_sched_getaffinity]),
    ("time", &[libc::SYS_clock_gettime, libc::SYS_clock_nanosleep, libc::SYS_nanosleep]),
    ("signal masks", &[libc::SYS_rt_sigprocmask, libc::SYS_rt_sigpending, libc::SYS_rt_sigtimedwait]),
    ("signal handlers", &[libc::SYS_rt_sigaction]),
    ("limits", &[libc::SYS_prlimit64]),
    ("locks and flags", &[libc::SYS_flock, libc::SYS_fcntl, libc::SYS_fsync]),
    ("read links and directories", &[libc::SYS_readlinkat, libc::SYS_getdents64, libc::SYS_getcwd]),
    ("identity", &[libc::SYS_uname, libc::SYS_sysinfo, libc::SYS_getpid, libc::SYS_gettid, libc::SYS_getuid]),
    ("readiness", &[libc::SYS_ppoll, libc::SYS_ioctl, libc::SYS_sendto]),
];

/// What only x86-64 has of some families.
#[cfg(target_arch = "x86_64")]
const OLD: &[(&str, &[c_long])] = &[
    ("open", &[libc::SYS_open, libc::SYS_creat]),
    ("make directories", &[libc::SYS_mkdir]),
    ("rename", &[libc::SYS_rename]),
    ("make links", &[libc::SYS_link, libc::SYS_symlink]),
    ("remove", &[libc::SYS_unlink, libc::SYS_rmdir]),
    ("stat", &[libc::SYS_stat, libc::SYS_lstat, libc::SYS_access]),
    ("limits", &[libc::SYS_getrlimit]),
    ("read links and directories", &[libc::SYS_readlink]),
    ("readiness", &[libc::SYS_poll]),
];
#[cfg(not(target_arch = "x86_64"))]
const OLD: &[(&str, &[c_long])] = &[];

/// Before the plugin begins, while it records, and when only the exit is left.
const MOMENTS: [&str; 3] = ["DENY init work finalize", "init DENY work finalize", "init work DENY"];

/// Fails unless the program ends with the plugin as with the empty one.
fn ends_as_with_an_empty_plugin(what: &str, steps: &str) {
    let ended = [("empty", built::empty_plugin()), ("ours", built::plugin())].map(|(name, plugin)| {
        let scratch = Scratch::new();
        (name, run(&mut program(&scratch, &plugin, steps)))
    });
    let [(_, empty), (_, ours)] = &ended;
    assert_eq!(ours.status, empty.status, "{what}: {steps}\n{ended:?}");
    assert_ne!(empty.status.code(), Some(2), "{what}: {steps} was not done\n{empty}");
}

fn denied(error: i32) {
    for (family, calls) in FAMILIES {
        let old = OLD.iter().filter(|(name, _)| *name == family).flat_map(|(_, calls)| *calls);
        let calls: Vec<String> = calls.iter().chain(old).map(c_long::to_string).collect();
        for moment in MOMENTS {
            let steps = moment.replace("DENY", &format!("deny={error}:{}", calls.join(",")));
            ends_as_with_an_empty_plugin(family, &steps);
        }
    }
}

#[test]
fn system_calls_that_are_not_permitted() {
    denied(libc::EPERM);
}

#[test]
fn system_calls_that_are_not_there() {
    denied(libc::ENOSYS);
}

/// A recording that cannot begin after another one: the archive of that one counts the communicators.
#[test]
fn communicators_without_a_recording_are_counted() {
    let no_room = format!("deny={}:{}", libc::ENOSPC, libc::SYS_fallocate);
    let (ended, scratch) = survives(&format!("init work finalize {no_room} init finalize init"), &[]);
    assert!(ended.stderr.contains("no further communicator is recorded: "), "{ended}");
    assert_eq!(scratch.archive().count("COMMUNICATORS_LOST"), 2, "{ended}");
    // The archive that the exit renews has them by itself.
    let scratch = Scratch::new();
    let steps = format!("init work finalize init work finalize {no_room} init");
    let ended = run(&mut program(&scratch, &built::plugin(), &steps)).with_code(0);
    assert_eq!(scratch.archive().count("COMMUNICATORS_LOST"), 1, "{ended}");
}

/// Limits with few of the values that programs have; of memory, beyond what the process has.
const LIMITS: [(&str, libc::__rlimit_resource_t, &[u64]); 9] = [
    ("numbers of files", libc::RLIMIT_NOFILE, &[3, 4, 6, 10]),
    ("stack", libc::RLIMIT_STACK, &[1 << 20]),
    ("pending signals", libc::RLIMIT_SIGPENDING, &[0]),
    ("locked memory", libc::RLIMIT_MEMLOCK, &[0]),
    ("processes", libc::RLIMIT_NPROC, &[1]),
    ("core files", libc::RLIMIT_CORE, &[0]),
    ("lengths of files", libc::RLIMIT_FSIZE, &[0, 100_000, 1_500_000]),
    ("data", libc::RLIMIT_DATA, &[0, 100_000, 1_000_000, 4_000_000, 20_000_000]),
    ("address space", libc::RLIMIT_AS, &[0, 100_000, 1_000_000, 4_000_000, 20_000_000, 150_000_000]),
];

/// Memory that runs out before threads of the plugin's begin, and after what it recorded.
#[test]
fn no_memory() {
    for allocations in [0, 1, 2, 5, 10, 30, 60, 100] {
        ends_as_with_an_empty_plugin("memory", &format!("starve={allocations} init work finalize"));
    }
    ends_as_with_an_empty_plugin("memory", "init work starve=0 finalize");
    ends_as_with_an_empty_plugin("memory", "init work starve=0");
}

#[test]
fn limits() {
    for (limit, resource, values) in LIMITS {
        for value in values {
            // Threads of the plugin's begin in `init`, and the C library ends the process if one has no memory then.
            let is_of_memory = [libc::RLIMIT_DATA, libc::RLIMIT_AS].contains(&resource);
            let moments = MOMENTS.into_iter().chain(["init work DENY finalize"]);
            for moment in moments.filter(|moment| !is_of_memory || moment.contains("work DENY")) {
                let steps = moment.replace("DENY", &format!("limit={resource}:{value}"));
                ends_as_with_an_empty_plugin(limit, &steps);
            }
        }
    }
}
