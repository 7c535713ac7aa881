// An OCI registry: registry ADDRESS FOLDER CERTIFICATE KEY.
package main

import (
	"log"
	"net/http"
	"os"

	"github.com/google/go-containerregistry/pkg/registry"
)

func main() {
	address, folder, certificate, key := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	blobs := registry.WithBlobHandler(registry.NewDiskBlobHandler(folder))
	log.Fatal(http.ListenAndServeTLS(address, certificate, key, registry.New(blobs)))
}
