//! Functions of a library that is loaded at run time, and tables of functions.

/// A structure with a library's functions, found by name; those that are optional may be missing. Whoever names a
/// function vouches for its type.
#[macro_export]
macro_rules! functions {
    (
        $(#[$meta:meta])* $vis:vis struct $Functions:ident {
            $($field:ident: $symbol:literal, $type:ty;)*
        } optional {
            $($other:ident: $other_symbol:literal, $other_type:ty;)*
        }
    ) => {
        $(#[$meta])*
        $vis struct $Functions {
            $($vis $field: $type,)*
            $($vis $other: Option<$other_type>,)*
        }

        impl $Functions {
            /// The functions, or the name of one that the library lacks.
            $vis fn find(library: &libloading::os::unix::Library) -> Result<Self, &'static str> {
                Ok(Self {
                    $($field: {
                        // SAFETY: the type is that of the function of this name in the library's header.
                        let symbol = unsafe { library.get::<$type>($symbol.as_bytes()) };
                        *symbol.map_err(|_| $symbol)?
                    },)*
                    $($other: {
                        // SAFETY: as above.
                        let symbol = unsafe { library.get::<$other_type>($other_symbol.as_bytes()) };
                        symbol.ok().map(|symbol| *symbol)
                    },)*
                })
            }
        }
    };
}

/// `ncclProfiler_vN_t`: the name, `init`, `startEvent`, `stopEvent`, `recordEventState`, `finalize`.
#[repr(C)]
#[derive(Debug)]
pub struct ProfilerTable(pub [*const (); 6]);

// SAFETY: a static string and functions.
unsafe impl Sync for ProfilerTable {}

/// Exports tables of NCCL's profiler interface.
#[macro_export]
macro_rules! profiler_tables {
    ($($table:ident $name:expr, $($function:expr),*;)*) => {$(
        #[unsafe(no_mangle)]
        pub static $table: $crate::ProfilerTable =
            $crate::ProfilerTable([$name.as_ptr().cast(), $($function as *const ()),*]);
    )*};
}
