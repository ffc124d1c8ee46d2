//! Reads the symbol table of an ELF64 file on disk.

use std::ffi::CStr;
use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::ptr::null_mut;

/// A file, mapped for reading: it is hundreds of megabytes long, of which little is looked at.
pub(super) struct Image {
    base: *const u8,
    len: usize,
}

/// An entry of the symbol table.
pub(super) struct Symbol<'a> {
    pub(super) name: &'a str,
    pub(super) value: u64,
    pub(super) size: u64,
    pub(super) is_func: bool,
}

/// Fields of the section header that are used.
struct Section {
    name: usize,
    kind: u32,
    offset: usize,
    size: usize,
    link: usize,
}

const SHT_SYMTAB: u32 = 2;
const SHT_DYNSYM: u32 = 11;
const STT_FUNC: u8 = 2;
const SYMBOL_LEN: usize = 24;

impl Image {
    pub(super) fn open(path: &str) -> Option<Image> {
        let file = File::open(path).ok()?;
        let len = file.metadata().ok()?.len() as usize;
        if len < 64 {
            return None;
        }
        // SAFETY: a new private mapping at an address that the kernel chooses; it outlives the descriptor.
        let base = unsafe {
            libc::mmap(
                null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_PRIVATE,
                file.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return None;
        }
        let image = Image {
            base: base.cast_const().cast(),
            len,
        };
        (image.bytes(0, 5)? == b"\x7fELF\x02").then_some(image)
    }

    fn bytes(&self, offset: usize, n: usize) -> Option<&[u8]> {
        // SAFETY: the mapping has `len` bytes and lives as long as `self`. The file is a library in use, which
        // whoever installs libraries replaces and does not change or cut.
        let all = unsafe { std::slice::from_raw_parts(self.base, self.len) };
        all.get(offset..offset.checked_add(n)?)
    }

    fn u16(&self, offset: usize) -> Option<u16> {
        Some(u16::from_le_bytes(self.bytes(offset, 2)?.try_into().ok()?))
    }

    fn u32(&self, offset: usize) -> Option<u32> {
        Some(u32::from_le_bytes(self.bytes(offset, 4)?.try_into().ok()?))
    }

    fn u64(&self, offset: usize) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(offset, 8)?.try_into().ok()?))
    }

    fn section(&self, index: usize) -> Option<Section> {
        let (table, entry, count) = (self.u64(40)? as usize, self.u16(58)?, self.u16(60)?);
        if index >= usize::from(count) {
            return None;
        }
        let at = table + index * usize::from(entry);
        Some(Section {
            name: self.u32(at)? as usize,
            kind: self.u32(at + 4)?,
            offset: self.u64(at + 24)? as usize,
            size: self.u64(at + 32)? as usize,
            link: self.u32(at + 40)? as usize,
        })
    }

    fn sections(&self) -> impl Iterator<Item = Section> {
        (0..).map_while(|index| self.section(index))
    }

    /// Visits the entries of `.symtab` (or `.dynsym` where there is no `.symtab`). Returns whether a full symbol
    /// table was found.
    pub(super) fn symbols<'a>(&'a self, mut visit: impl FnMut(Symbol<'a>)) -> Option<bool> {
        let of = |kind| self.sections().find(|section| section.kind == kind);
        let table = of(SHT_SYMTAB).or_else(|| of(SHT_DYNSYM))?;
        let names = self.section(table.link)?;
        let names = self.bytes(names.offset, names.size)?;
        for index in 0..table.size / SYMBOL_LEN {
            let at = table.offset + index * SYMBOL_LEN;
            let name = self.u32(at)? as usize;
            let info = self.bytes(at + 4, 1)?[0];
            let (section, value, size) = (self.u16(at + 6)?, self.u64(at + 8)?, self.u64(at + 16)?);
            if section == 0 || value == 0 {
                continue;
            }
            let name = names
                .get(name..)
                .and_then(|rest| CStr::from_bytes_until_nul(rest).ok());
            let Some(Ok(name)) = name.map(CStr::to_str) else {
                continue;
            };
            visit(Symbol {
                name,
                value,
                size,
                is_func: info & 0xf == STT_FUNC,
            });
        }
        Some(table.kind == SHT_SYMTAB)
    }

    /// First text in the read-only data that starts with `head`, up to `take` characters of it.
    pub(super) fn find_text(&self, head: &str, take: usize) -> Option<String> {
        let names = self.section(usize::from(self.u16(62)?))?;
        for section in self.sections() {
            if self.bytes(names.offset + section.name, 8)? != b".rodata\0" {
                continue;
            }
            let data = self.bytes(section.offset, section.size)?;
            let head = head.as_bytes();
            let Some(at) = data.windows(head.len()).position(|window| window == head) else {
                continue;
            };
            let printable = data[at..]
                .iter()
                .take(take)
                .take_while(|b| (32..127).contains(*b));
            return Some(printable.map(|b| char::from(*b)).collect());
        }
        None
    }
}

impl Drop for Image {
    fn drop(&mut self) {
        // SAFETY: the mapping made in `open`; slices of it borrow `self`, so none is left.
        unsafe { libc::munmap(self.base.cast_mut().cast(), self.len) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_test_program_itself_has_symbols() {
        let own = std::env::current_exe().unwrap();
        let image = Image::open(own.to_str().unwrap()).unwrap();
        let mut functions = 0;
        let full = image.symbols(|s| functions += usize::from(s.is_func && s.size > 0));
        assert!(full.unwrap(), "a test build is not stripped");
        assert!(functions > 100, "{functions} functions");
        // Put together, so that this text is not the one that is found.
        let text = image.find_text(&["nothing but a ", "needle"].concat(), 30);
        assert_eq!(text.as_deref(), Some("nothing but a needle in a test"));
        assert_eq!(NEEDLE.len(), 39);
    }

    #[used]
    static NEEDLE: [u8; 39] = *b"nothing but a needle in a test program\0";

    #[test]
    fn what_is_no_elf_file_is_refused() {
        assert!(Image::open("/proc/self/status").is_none());
        assert!(Image::open("/nonexistent").is_none());
    }
}
