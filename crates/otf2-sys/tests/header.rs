//! The library that was linked is the header's, and the constants written by hand are the header's.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use otf2_sys as sys;

#[test]
fn linked_library_has_the_version_of_the_header() {
    // libotf2 3.0 has no version function; the anchor it writes carries one. A file of ours is not needed for
    // that: a primary archive that is opened and closed at once has an anchor.
    let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("version");
    drop(fs::remove_dir_all(&directory));
    let path = std::ffi::CString::new(directory.to_str().expect("a UTF-8 path")).expect("no NUL");
    // SAFETY: two NUL-terminated strings and values from the header; the result is checked below.
    let archive = unsafe {
        sys::OTF2_Archive_Open(
            path.as_ptr(),
            c"traces".as_ptr(),
            byte(sys::OTF2_FILEMODE_WRITE),
            sys::OTF2_CHUNK_SIZE_MIN,
            sys::OTF2_CHUNK_SIZE_MIN,
            byte(sys::OTF2_SUBSTRATE_POSIX),
            byte(sys::OTF2_COMPRESSION_NONE),
        )
    };
    assert!(!archive.is_null());
    // SAFETY: the archive is open and has no collective callbacks yet.
    let code = unsafe { sys::OTF2_Archive_SetSerialCollectiveCallbacks(archive) };
    assert_eq!(code, sys::OTF2_SUCCESS);
    // SAFETY: the archive is open and not used again.
    let code = unsafe { sys::OTF2_Archive_Close(archive) };
    assert_eq!(code, sys::OTF2_SUCCESS);

    let anchor = std::ffi::CString::new(directory.join("traces.otf2").to_str().expect("a UTF-8 path"));
    // SAFETY: a NUL-terminated string; the result is checked below.
    let reader = unsafe { sys::OTF2_Reader_Open(anchor.expect("no NUL").as_ptr()) };
    assert!(!reader.is_null());
    let (mut major, mut minor, mut bugfix) = (0, 0, 0);
    // SAFETY: the reader is open and the three places are writable.
    let code = unsafe { sys::OTF2_Reader_GetVersion(reader, &raw mut major, &raw mut minor, &raw mut bugfix) };
    assert_eq!(code, sys::OTF2_SUCCESS);
    // SAFETY: the reader is open and not used again.
    let code = unsafe { sys::OTF2_Reader_Close(reader) };
    assert_eq!(code, sys::OTF2_SUCCESS);

    let (header_major, header_minor, header_bugfix) = sys::HEADER_VERSION;
    assert_eq!(
        (u32::from(major), u32::from(minor), u32::from(bugfix)),
        (header_major, header_minor, header_bugfix),
        "header and library come from two installations"
    );
}

#[test]
fn constants_written_by_hand_are_those_of_the_header() {
    let table: &[(&str, u64)] = &[
        ("OTF2_UNDEFINED_UINT8", sys::OTF2_UNDEFINED_UINT8.into()),
        ("OTF2_UNDEFINED_UINT32", sys::OTF2_UNDEFINED_UINT32.into()),
        ("OTF2_UNDEFINED_UINT64", sys::OTF2_UNDEFINED_UINT64),
        ("OTF2_CHUNK_SIZE_MIN", sys::OTF2_CHUNK_SIZE_MIN),
        ("OTF2_CHUNK_SIZE_MAX", sys::OTF2_CHUNK_SIZE_MAX),
        ("OTF2_COLLECTIVE_ROOT_NONE", sys::OTF2_COLLECTIVE_ROOT_NONE.into()),
    ];
    let source = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("constants.c");
    let mut text = String::from("#include <otf2/otf2.h>\n");
    for (name, value) in table {
        text += &format!("_Static_assert((uint64_t)({name}) == {value}ULL, \"{name}\");\n");
    }
    fs::write(&source, text).expect("the source can be written");
    let compiler =
        Command::new("cc").arg("-fsyntax-only").arg(concat!("-I", env!("OTF2_SYS_INCLUDE"))).arg(&source).output();
    let Ok(output) = compiler else {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "must not be skipped in CI: no cc");
        // Past the test harness, which keeps to itself what a test prints that passes.
        let line = "skipped: there is no C compiler called cc\n";
        std::io::Write::write_all(&mut std::io::stderr(), line.as_bytes()).expect("write to stderr");
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// The header declares its enumerations as `int` and takes them as bytes.
fn byte(constant: u32) -> u8 {
    u8::try_from(constant).expect("an enumeration that OTF2 stores in a byte")
}
