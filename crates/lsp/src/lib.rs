// SPDX-License-Identifier: MIT OR Apache-2.0
//! A language server for configurations, and for rule files of the firewall and of address translation.
//!
//! [`serve`] speaks the Language Server Protocol over a connection. Between messages it checks what was edited: a burst of edits is checked
//! once, at its end. [`document`] is a text with what is known of it, and each other module answers one kind of request.
//!
//! Nothing that a text names is opened: no device, and no file but libraries in the folders of the project.
#![forbid(unsafe_code)]

mod actions;
mod check;
mod classes;
mod complete;
mod document;
mod hover;
mod names;
mod position;
mod server;
mod symbols;
mod tokens;

pub use server::{Error, Settings, serve};

pub use lsp_server::Connection;
