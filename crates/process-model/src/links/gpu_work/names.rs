//! Names of kernels, kinds of copies and kinds of memory.

use cpp_demangle::{DemangleOptions, ParseOptions, Symbol};

/// Limit on template nesting: names come from other people's programs.
const MOST_RECURSION: u32 = 96;

/// A demangled C++ name; the input if it is not a mangled name.
pub fn demangled(mangled: &str) -> String {
    let parsing = ParseOptions::default().recursion_limit(MOST_RECURSION);
    let writing = DemangleOptions::default().recursion_limit(MOST_RECURSION);
    let symbol = Symbol::new_with_options(mangled, &parsing).ok();
    let text = symbol.and_then(|symbol| symbol.demangle_with_options(&writing).ok());
    text.filter(|text| !text.is_empty()).unwrap_or_else(|| mangled.to_owned())
}

/// `CUpti_ActivityMemcpyKind`.
pub const fn copy_kind(kind: u8) -> &'static str {
    match kind {
        1 => "memcpy HtoD",
        2 => "memcpy DtoH",
        3 => "memcpy HtoA",
        4 => "memcpy AtoH",
        5 => "memcpy AtoA",
        6 => "memcpy AtoD",
        7 => "memcpy DtoA",
        8 => "memcpy DtoD",
        9 => "memcpy HtoH",
        10 => "memcpy PtoP",
        _ => "memcpy",
    }
}

/// `CUpti_ActivityMemoryKind`.
pub const fn memory_kind(kind: u8) -> &'static str {
    match kind {
        1 => "pageable",
        2 => "pinned",
        3 => "device",
        4 => "array",
        5 => "managed",
        6 => "device static",
        7 => "managed static",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_name_of_cpp_or_nested_too_deep_stays_as_it_is() {
        for other in ["", "_Z", "axpy", "_ZN", "no name at all"] {
            assert_eq!(demangled(other), other);
        }
        let deep = format!("_Z1f{}i", "P".repeat(100_000));
        assert!(demangled(&deep).len() >= deep.len() - 4);
    }
}
