//! How this process's allocator keeps memory.

/// Gives large freed blocks back to the system at once, in this whole process, one of our own tools. glibc raises the
/// size that counts as large with each such block that is freed, up to 32 MiB, and from then on keeps most of them.
pub fn give_back_in_this_process() {
    // SAFETY: any number is valid; no other thread runs yet that could change it, too.
    #[cfg(target_env = "gnu")]
    let _is_set = unsafe { libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 20) };
}
