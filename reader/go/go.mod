module kubedelta.example/reader

go 1.23
