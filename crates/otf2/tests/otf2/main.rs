//! Archives that this crate writes, read by this crate, by otf2-print and by the Python package; misuse and damage.

mod damage;
mod misuse;
mod parts;
mod programs;
mod round_trip;
mod sample;
mod verbatim;
