"""Words of gsched about job scripts: `convert`. Start with `script_words`. They ask no cluster and submit nothing."""
