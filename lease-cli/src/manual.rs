//! What shells and `man` are to know of the program, written from its own definition.

use std::fs;
use std::path::Path;

use clap::{Command, CommandFactory};

use crate::args::{Arguments, CompletionsArguments, ManArguments};
use crate::exit::{Failure, SUCCESS, SYSTEM, answer};

const PROGRAM: &str = "lease";

pub(crate) fn completions(arguments: &CompletionsArguments) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Arguments::command(), PROGRAM, &mut script);
    answer(&String::from_utf8_lossy(&script))?;
    Ok(SUCCESS)
}

pub(crate) fn man(arguments: &ManArguments) -> Result<u8, Failure> {
    let Some(folder) = &arguments.dir else {
        let (_, page) = page(Arguments::command())?;
        answer(&page)?;
        return Ok(SUCCESS);
    };
    for (file, page) in pages()? {
        write(&folder.join(file), &page)?;
    }
    Ok(SUCCESS)
}

/// The page of the program, then those of its subcommands, each with its file's name.
fn pages() -> Result<Vec<(String, String)>, Failure> {
    let mut program = Arguments::command().disable_help_subcommand(true);
    // Gives the subcommands the names that their pages have.
    program.build();
    let subcommands: Vec<_> = program.get_subcommands().cloned().collect();
    std::iter::once(program).chain(subcommands).map(page).collect()
}

fn page(command: Command) -> Result<(String, String), Failure> {
    let page = clap_mangen::Man::new(command);
    let mut text = Vec::new();
    page.render(&mut text)
        .map_err(|error| Failure::new(SYSTEM, format!("cannot write the manual: {error}")))?;
    Ok((page.get_filename(), String::from_utf8_lossy(&text).into_owned()))
}

fn write(file: &Path, page: &str) -> Result<(), Failure> {
    fs::write(file, page).map_err(|error| {
        let message = format!("cannot write {}: {error}; give --dir a folder that can be written", file.display());
        Failure::new(SYSTEM, message)
    })
}
