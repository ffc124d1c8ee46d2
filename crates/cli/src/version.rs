//! `--version`.

use std::sync::LazyLock;

use journal::format::FORMAT_VERSION;

pub(crate) fn short() -> &'static str {
    settings::VERSION
}

/// The versions of everything that affects the contents of archives.
pub(crate) fn long() -> &'static str {
    static LONG: LazyLock<String> = LazyLock::new(|| {
        let (major, minor, bugfix) = otf2_sys::HEADER_VERSION;
        format!("{}\nOTF2 {major}.{minor}.{bugfix}\njournal format {FORMAT_VERSION}", short())
    });
    &LONG
}
