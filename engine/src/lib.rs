//! The measuring half of `costof`: everything on the path of a measured byte.

#![warn(missing_docs)]

pub mod link;
